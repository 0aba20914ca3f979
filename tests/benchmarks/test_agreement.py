"""The comparisons with FLA's functions and layers, held against stand-ins whose errors are known."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from linattn_benchmarks import __main__ as command
from linattn_benchmarks import agreement_layers, agreement_ops
from linattn_benchmarks.benchmark import Rows, Size
from linattn_benchmarks.translation import FLA_FUNCTIONS
from linattn_book import results
from linattn_ref import ops
from linattn_ref.interop import FLA_LAYERS, fla_layers
from tests.interop.fla_definitions import STATES, StandIn

# --- functions ----------------------------------------------------------------------------------------------

compare_op = partial(agreement_ops.compare, size=Size.DRY_RUN)


@pytest.mark.parametrize("function", FLA_FUNCTIONS)
def test_our_own_op_agrees_with_itself_in_every_quantity(function: str) -> None:
    for dims in FLA_FUNCTIONS[function].decay or [0]:
        rows = compare_op(function, dims, torch.float32)
        quantities = {row["quantity"] for row in rows}
        assert {"output", "state", "gradient of q", "gradient of initial_state"} <= quantities
        assert ("gradient of log_decay" in quantities) == (dims > 0)
        assert all(row["error"] < 1e-5 and row["size"] > 0 for row in rows)


def off_by(function: str, error: float) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return our own op under FLA's names, its output off by a constant."""
    right = agreement_ops.make_stand_in(function)

    def theirs(**arguments: Any) -> tuple[Tensor, Tensor]:
        output, state = right(**arguments)
        return output + error, state

    return theirs


def test_an_error_is_seen_where_it_is_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = off_by("chunk_gla", 0.5)
    monkeypatch.setattr(agreement_ops, "make_stand_in", lambda function: wrong)
    rows = {row["quantity"]: row for row in compare_op("chunk_gla", 4, torch.float32)}
    assert rows["output"]["error"] * max(1, rows["output"]["size"]) == pytest.approx(0.5, rel=1e-4)
    assert all(row["error"] < 1e-5 for name, row in rows.items() if name != "output")


def test_the_command_saves_and_names_what_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = agreement_ops.make_stand_in

    def stand_in(function: str) -> Callable[..., Any]:
        if function == "chunk_gla":
            raise RuntimeError("no such kernel")
        return right(function)

    monkeypatch.setenv("TRITON_INTERPRET", "1")  # the command sets it
    monkeypatch.setattr(agreement_ops, "make_stand_in", stand_in)
    words = ["fla_agreement", "--dry-run", "--out", str(tmp_path), "--only", "function=chunk_[lg]*"]
    assert command.main(words) == 1
    said = capsys.readouterr().out
    assert "function = chunk_gla, decay = [B, T, H, K], dtype = float32\n    failed, RuntimeError" in said
    rows: Rows = results.load("fla_agreement", directory=tmp_path)
    assert list(rows[0]) == list(agreement_ops.FLA_AGREEMENT.columns)
    assert {row["function"] for row in rows} >= {"chunk_linear_attn", "chunk_lightning_attn"}
    assert "chunk_gla" not in {row["function"] for row in rows}
    assert {row["dtype"] for row in rows} == {"float32", "bfloat16"}


def test_every_function_has_an_op_of_ours() -> None:
    assert {agreement_ops.find_our_op(name) for name in FLA_FUNCTIONS} == {
        ops.chunk_linear_attention,
        ops.chunk_delta_rule,
        ops.chunk_rwkv6,
    }


# --- layers -------------------------------------------------------------------------------------------------

compare_layer = partial(agreement_layers.compare, size=Size.DRY_RUN)


def play(monkeypatch: pytest.MonkeyPatch, kind: Callable[..., StandIn] = StandIn) -> None:
    """Put stand-ins in the place of FLA's layers."""
    names = {layer.path: name for name, layer in FLA_LAYERS.items()}
    monkeypatch.setattr(fla_layers, "import_layer_class", lambda path: partial(kind, names[path]))


@pytest.mark.parametrize("name", sorted(set(FLA_LAYERS) - set(STATES)))
def test_the_definition_agrees_in_every_quantity(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch)
    rows = compare_layer(name, {}, FLA_LAYERS[name].modes[0], torch.float32)
    mixer = agreement_layers.draw_mixer(name, {})
    weights = {f"gradient of {parameter}" for parameter, _ in mixer.named_parameters()}
    assert {row["quantity"] for row in rows} == weights | {"output", "gradient of x"}
    assert all(row["error"] < 1e-4 and row["size"] > 0 and row["remark"] is None for row in rows)


class Off(StandIn):
    """A layer whose output is off by a constant."""

    def forward(self, x: Tensor, **arguments: Any) -> tuple[Tensor, None, None]:
        return super().forward(x, **arguments)[0] + 0.5, None, None


def test_an_error_of_a_layer_is_seen_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, Off)
    rows = {row["quantity"]: row for row in compare_layer("gla", {}, "chunk", torch.float32)}
    assert rows["output"]["error"] * max(1, rows["output"]["size"]) == pytest.approx(0.5, rel=1e-4)
    assert all(row["error"] < 1e-5 for quantity, row in rows.items() if quantity != "output")


class RefusedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Tensor:
        raise RuntimeError("no gradient\n on this GPU")


class ForwardOnly(StandIn):
    """A layer with an output, and gradients that are refused."""

    def forward(self, x: Tensor, **arguments: Any) -> tuple[Tensor, None, None]:
        return RefusedGradient.apply(super().forward(x, **arguments)[0]), None, None


def test_gradients_that_are_refused_leave_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, ForwardOnly)
    [row] = compare_layer("gla", {}, "chunk", torch.float32)
    assert row["error"] < 1e-5
    assert row["remark"] == "RuntimeError: no gradient on this GPU"
    [row] = compare_layer("linear", {}, "fused_recurrent", torch.float32)
    assert row["error"] < 1e-5
    assert "no gradient is asked for" in row["remark"]


class NotFinite(StandIn):
    """A layer whose output is NaN."""

    def forward(self, x: Tensor, **arguments: Any) -> tuple[Tensor, None, None]:
        return super().forward(x, **arguments)[0] * torch.nan, None, None


class IgnoresAWeight(StandIn):
    """A layer whose output does not depend on one of its weights."""

    def weights(self) -> dict[str, Tensor]:
        weights = super().weights()
        return weights | {"gk_proj.1.bias": weights["gk_proj.1.bias"].detach()}


def test_what_is_missing_or_no_number_has_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, NotFinite)
    rows = compare_layer("gla", {}, "chunk", torch.float32)
    assert {(row["error"], row["remark"]) for row in rows} == {(None, "missing, or not finite")}
    play(monkeypatch, IgnoresAWeight)
    [row] = [row for row in compare_layer("gla", {}, "chunk", torch.float32) if row["error"] is None]
    assert (row["quantity"], row["remark"]) == ("gradient of decay.1.bias", "missing, or not finite")


def test_a_layer_that_cannot_be_built_has_a_row_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play(monkeypatch)
    found = fla_layers.import_layer_class

    def import_layer_class(path: str) -> type:
        if path == FLA_LAYERS["gla"].path:
            raise RuntimeError("no such layer")
        return found(path)

    monkeypatch.setenv("TRITON_INTERPRET", "1")  # the command sets it
    monkeypatch.setattr(fla_layers, "import_layer_class", import_layer_class)
    words = ["fla_layers", "--dry-run", "--out", str(tmp_path), "--only", "mixer=gla", "mixer=retnet"]
    assert command.main(words) == 0
    rows: Rows = results.load("fla_layers", directory=tmp_path)
    failed = [row for row in rows if row["mixer"] == "gla"]
    assert [(row["quantity"], row["error"]) for row in failed] == [("output", None)] * 4
    assert {row["remark"] for row in failed} == {"RuntimeError: no such layer"}
    assert {(row["mode"], row["dtype"]) for row in rows if row["mixer"] == "retnet"} == {
        (mode, dtype) for mode in ("chunk", "fused_recurrent") for dtype in ("float32", "bfloat16")
    }
