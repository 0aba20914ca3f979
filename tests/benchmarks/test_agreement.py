"""The comparison with FLA's kernels, held against a stand-in whose errors are known."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from linattn_benchmarks.agreement import __main__ as command
from linattn_benchmarks.agreement import ops as agreement
from linattn_book import results
from linattn_ref import ops
from linattn_ref.interop.rosetta import FLA, from_fla


def stand_in(function: str, error: float = 0.0):
    """A function with FLA's names that is our own op, its output off by a constant."""

    def theirs(**arguments: Any) -> tuple[Tensor, Tensor]:
        output, state = agreement.our_op(function)(**from_fla(function, **arguments))
        return output + error, state

    return theirs


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"B": 2, "T": 20, "H": 2, "K": 6, "V": 4}.items():
        monkeypatch.setattr(agreement, name, size)
    shapes = {0: None, 1: (2,), 3: (2, 20, 2), 4: (2, 20, 2, 6)}
    monkeypatch.setattr(agreement, "SHAPES", shapes)


@pytest.mark.parametrize("function", FLA)
def test_our_own_op_agrees_with_itself_in_every_quantity(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "their_op", stand_in)
    for dims in FLA[function].decay or [0]:
        rows = agreement.compare(function, dims, torch.float32)
        quantities = {row["quantity"] for row in rows}
        assert {"output", "state", "gradient of q", "gradient of initial_state"} <= quantities
        assert ("gradient of log_decay" in quantities) == (dims > 0)
        assert all(row["error"] < 1e-5 and row["size"] > 0 for row in rows)


def test_an_error_is_seen_where_it_is_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "their_op", lambda function: stand_in(function, 0.5))
    rows = {row["quantity"]: row for row in agreement.compare("chunk_gla", 4, torch.float32)}
    assert rows["output"]["error"] * max(1, rows["output"]["size"]) == pytest.approx(0.5, rel=1e-4)
    assert all(row["error"] < 1e-5 for name, row in rows.items() if name != "output")


def test_the_command_saves_and_names_what_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def their_op(function: str):
        if function == "chunk_gla":
            raise RuntimeError("no such kernel")
        return stand_in(function)

    monkeypatch.setattr(agreement, "their_op", their_op)
    arguments = ["agreement", "chunk_linear_attn", "chunk_gla", "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", arguments)
    command.main()
    assert "chunk_gla, decay [B, T, H, K], float32: RuntimeError: no such kernel" in capsys.readouterr().out
    rows = results.load("fla_agreement", directory=tmp_path / "out")
    assert {row["function"] for row in rows} == {"chunk_linear_attn"}
    assert {row["dtype"] for row in rows} == {"float32", "bfloat16"}


def test_every_function_has_an_op_of_ours() -> None:
    assert {agreement.our_op(name) for name in FLA} == {
        ops.chunk_linear_attention,
        ops.chunk_delta_rule,
        ops.chunk_rwkv6,
    }
