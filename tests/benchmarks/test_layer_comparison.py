"""The comparison with FLA's layers, held against layers whose errors are known."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from linattn_benchmarks.agreement import __main__ as command
from linattn_benchmarks.agreement import layers
from linattn_book import results
from linattn_ref.interop import fla_layers
from linattn_ref.interop.fla_layers import LAYERS
from tests.interop.fla_definitions import SIZES, STATES, StandIn


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"B": 2, "T": 70, "SIZES": SIZES}.items():
        monkeypatch.setattr(layers, name, size)


def play(monkeypatch: pytest.MonkeyPatch, kind: Callable[..., StandIn] = StandIn) -> None:
    monkeypatch.setattr(layers, "SETTINGS", {})
    names = {layer.path: name for name, layer in LAYERS.items()}
    monkeypatch.setattr(fla_layers, "their_class", lambda path: partial(kind, names[path]))


@pytest.mark.parametrize("name", sorted(set(LAYERS) - set(STATES)))
def test_the_definition_agrees_in_every_quantity(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch)
    rows = layers.compare(name, {}, LAYERS[name].modes[0], torch.float32)
    weights = {f"gradient of {parameter}" for parameter, _ in layers.draw(name, {}).named_parameters()}
    assert {row["quantity"] for row in rows} == weights | {"output", "gradient of x"}
    assert all(row["error"] < 1e-4 and row["size"] > 0 and row["remark"] is None for row in rows)


class Off(StandIn):
    """A layer whose output is off by a constant."""

    def forward(self, x: Tensor, **arguments: Any) -> tuple[Tensor, None, None]:
        return super().forward(x, **arguments)[0] + 0.5, None, None


def test_an_error_is_seen_where_it_is_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, Off)
    rows = {row["quantity"]: row for row in layers.compare("gla", {}, "chunk", torch.float32)}
    assert rows["output"]["error"] * max(1, rows["output"]["size"]) == pytest.approx(0.5, rel=1e-4)
    assert all(row["error"] < 1e-5 for quantity, row in rows.items() if quantity != "output")


class Refuses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Tensor:
        raise RuntimeError("no gradient\n on this GPU")


class Forward(StandIn):
    """A layer with an output, and gradients that are refused."""

    def forward(self, x: Tensor, **arguments: Any) -> tuple[Tensor, None, None]:
        return Refuses.apply(super().forward(x, **arguments)[0]), None, None


def test_gradients_that_are_refused_leave_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, Forward)
    [row] = layers.compare("gla", {}, "chunk", torch.float32)
    assert row["error"] < 1e-5
    assert row["remark"] == "RuntimeError: no gradient on this GPU"
    [row] = layers.compare("linear", {}, "fused_recurrent", torch.float32)
    assert row["error"] < 1e-5
    assert "no gradient is asked for" in row["remark"]


class Nothing(StandIn):
    def forward(self, x: Tensor, **arguments: Any) -> tuple[Tensor, None, None]:
        return super().forward(x, **arguments)[0] * torch.nan, None, None


class Deaf(StandIn):
    """A layer that does not listen to one of its weights."""

    def weights(self) -> dict[str, Tensor]:
        weights = super().weights()
        return weights | {"gk_proj.1.bias": weights["gk_proj.1.bias"].detach()}


def test_what_is_missing_or_no_number_has_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, Nothing)
    rows = layers.compare("gla", {}, "chunk", torch.float32)
    assert {(row["error"], row["remark"]) for row in rows} == {(None, "missing, or not finite")}
    play(monkeypatch, Deaf)
    [deaf] = [row for row in layers.compare("gla", {}, "chunk", torch.float32) if row["error"] is None]
    assert (deaf["quantity"], deaf["remark"]) == ("gradient of decay.1.bias", "missing, or not finite")


def test_the_command_saves_and_names_what_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch)
    theirs = fla_layers.their_class

    def their_class(path: str) -> type:
        if path == LAYERS["gla"].path:
            raise RuntimeError("no such layer")
        return theirs(path)

    monkeypatch.setattr(fla_layers, "their_class", their_class)
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["agreement", "--layers", "gla", "retnet", "--out", str(out)])
    command.main()
    said = capsys.readouterr().out
    assert "gla, chunk, float32: RuntimeError: no such layer" in said
    assert "retnet, fused_recurrent, float32: " in said
    rows = results.load("fla_layers", directory=out)
    failed = [row for row in rows if row["mixer"] == "gla"]
    assert [(row["quantity"], row["error"]) for row in failed] == [("output", None)] * 4
    assert {(row["mode"], row["dtype"]) for row in rows if row["mixer"] == "retnet"} == {
        (mode, dtype) for mode in ("chunk", "fused_recurrent") for dtype in ("float32", "bfloat16")
    }


def test_names_that_are_compared_side_by_side_are_joined(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real processes; here, where FLA's layers are not installed, both say so."""
    names, out = ["softmax", "mamba2"], tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["agreement", "--layers", *names, "--jobs", "2", "--out", str(out)])
    command.main()
    said = capsys.readouterr().out
    rows = results.load("fla_layers", directory=out)
    assert [row["mixer"] for row in rows] == ["softmax", "softmax", "mamba2", "mamba2"]
    assert all(f"{name}, {dtype}: " in said for name in names for dtype in ("float32", "bfloat16"))
    assert all(
        str(row["remark"]).startswith("ModuleNotFoundError") and str(row["remark"]) in said for row in rows
    )


def test_a_process_that_crashes_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "COMMAND", ["-c", "raise SystemExit('out of memory')"])
    assert list(command.side_by_side(command.OPS, ["chunk_gla"], 2, tmp_path)) == [
        ("chunk_gla: out of memory", [])
    ]


def test_a_name_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["agreement", "--layers", "chunk_gla", "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        command.main()
