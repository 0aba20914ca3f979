"""The benchmark of the kernels, without a GPU: what is compared, kept, and said when something fails."""

import ast
import math
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import linattn_ref
from linattn_ref import ops

ROOT = Path(linattn_ref.__file__).parents[1]
sys.path.insert(0, str(ROOT / "kernels"))

from linattn_benchmarks.kernels import candidates, cases, checking, costs, report, rows, timing  # noqa: E402

CPU = torch.device("cpu")
TINY = cases.all_cases(tiny=True)
LABELS = [case.label for case in TINY]
ROWS = [case for case in TINY if case.decay in ("none", "BTHK") and (case.softmax or case.mode != "fwd")]


def case_of(op: str, mode: str) -> cases.Case:
    return next(case for case in TINY if (case.op, case.mode) == (op, mode))


def known(name: str, case: cases.Case, factor: float = 1.0) -> candidates.Candidate:
    """Our reference op as a candidate, right or wrong by a factor."""

    def call(x: cases.Inputs) -> candidates.Result:
        output, state = getattr(ops, case.function)(**{n: y for n, y in x.items() if n != "do"})
        return factor * output, state

    return candidates.Candidate(name, call, candidates.own_state)


def refused(x: cases.Inputs) -> candidates.Result:
    raise NotImplementedError("not on this\nmachine")


def measured(case: cases.Case, who: list[candidates.Candidate]) -> dict[str, Any]:
    return rows.measure(case, who, timing.CPUClock(), timing.Ceilings(1.0, 2.0), "CPU")


# --- rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ROWS, ids=lambda case: case.label)
def test_a_row_has_exactly_the_columns(case: cases.Case) -> None:
    row = measured(case, [known("ours", case), known("theirs", case)])
    assert list(row) == list(rows.COLUMNS)
    assert row["remark"] is None
    assert row["fla_op"] == "theirs"
    assert row["floor_ms"] == pytest.approx(costs.moved_bytes(case) / 1e6)
    assert row["tflops"] == pytest.approx(costs.flops(case) / row["ms"] / 1e9)
    assert 0 <= row["error"] < 1e-5
    assert row["ms_low"] <= row["ms"] <= row["ms_high"]


def test_who_fails_or_is_wrong_is_not_timed_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    case = case_of("chunk_linear_attention/BTH", "fwdbwd")
    wrong, fails = known("wrong", case, 1.01), candidates.Candidate("fails", refused)
    row = measured(case, [known("ours", case), wrong, fails, known("right", case)])
    assert row["fla_op"] == "right"
    assert "fails: NotImplementedError: not on this machine" in row["remark"]
    assert "wrong: ArithmeticError: output is wrong: relative error 1.00e-02" in row["remark"]
    assert "fails is not timed" in capsys.readouterr().out


def test_without_ours_a_row_says_why_and_has_no_time() -> None:
    case = case_of("chunk_linear_attention/none", "fwd")
    row = measured(case, [candidates.Candidate("ours", refused), known("right", case)])
    assert row["ms"] is row["error"] is row["tflops"] is None
    assert row["remark"].startswith("ours: ")


def test_an_error_that_is_no_number_is_an_error() -> None:
    case = case_of("chunk_linear_attention/none", "fwd")
    with pytest.raises(ArithmeticError, match="output is wrong: relative error nan"):
        checking.checked(known("nan", case, math.nan), case, CPU)


# --- candidates --------------------------------------------------------------------------------------------


def fake_fla(name: str) -> Any:
    """FLA's function by its arguments: decays of its own, or whatever gate it is given."""

    def function(q: Any, k: Any, v: Any, **given: Any) -> Any:
        assert given.pop("output_final_state") is True
        gates = [given.pop(gate) for gate in ("g", "g_gamma", "gk") if gate in given]
        if "retention" in name:
            gates = [cases.retnet_decays(q.shape[2]).to(q.dtype)]
        if "lightning" in name:
            assert (given.pop("layer_idx"), given.pop("num_layers")) == (0, 1)
            gates = [candidates.lightning_decays(q.shape[2]).to(q.dtype)]
        assert given.pop("normalize", False) is False
        start = given.pop("initial_state", None)
        assert not given
        return ops.chunk_linear_attention(q, k, v, *gates, initial_state=start)

    return function


@pytest.mark.parametrize("case", [case for case in TINY if not case.softmax], ids=lambda case: case.label)
def test_fla_gets_our_numbers_under_its_names(case: cases.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in {function.module for function in candidates.FLA[case.op]}:
        names = [function.name for function in candidates.FLA[case.op] if function.module == module]
        fake: Any = SimpleNamespace(**{name: fake_fla(name) for name in names})
        monkeypatch.setitem(sys.modules, f"fla.ops.{module}", fake)
    for candidate in candidates.fla(case):
        assert checking.checked(candidate, case, CPU) < 1e-5


def functions_of_fla(module: str) -> Iterator[ast.FunctionDef]:
    found: Any = find_spec("fla")
    for file in Path(found.submodule_search_locations[0], "ops", module).glob("*.py"):
        yield from (node for node in ast.parse(file.read_bytes()).body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("op", sorted(candidates.FLA))
def test_fla_has_every_function_with_every_argument(op: str) -> None:
    for function in candidates.FLA[op]:
        (node,) = (x for x in functions_of_fla(function.module) if x.name == function.name)
        names = [argument.arg for argument in node.args.args + node.args.kwonlyargs]
        assert names[:3] == ["q", "k", "v"]
        gate = {function.gate} if function.gate else set()
        assert {"initial_state", "output_final_state"} | gate | set(function.besides) <= set(names)


def test_the_softmax_step_of_torch_and_the_layout_for_fla_hold_the_same_tokens() -> None:
    case = case_of("step_softmax_attention", "step")
    x = cases.inputs(case, CPU)
    want = checking.reference(case, x)["output"]
    torch_sdpa = candidates.sdpa(case)
    assert torch_sdpa is not None
    got = torch_sdpa.call(torch_sdpa.arrange(x))[0].transpose(1, 2)
    assert checking.relative(got, want) < 1e-5
    y = candidates.fla_softmax_step().arrange(x)
    for b in range(case.B):
        q, k, v = y["q"][:, b], *(y[name][0, y["ends"][b] : y["ends"][b + 1]] for name in "kv")
        weights = (torch.einsum("bhk,shk->bhs", q, k) * case.D**-0.5).softmax(-1)
        assert checking.relative(torch.einsum("bhs,shv->bhv", weights, v), want[b]) < 1e-5


# --- counts and means --------------------------------------------------------------------------------------


def test_bytes_and_operations_of_a_case_counted_by_hand() -> None:
    chunk = cases.Case("chunk_linear_attention/BTH", "fwd", 1, 64, 1, 16, torch.bfloat16)
    assert costs.flops(chunk) == 64 * (2 * 64 * 32 + 4 * 16 * 16)
    assert costs.moved_bytes(chunk) == 4 * 64 * 16 * 2 + 64 * 4 + 16 * 16 * 4
    both = cases.Case("chunk_linear_attention/BTH", "fwdbwd", 1, 64, 1, 16, torch.bfloat16)
    assert costs.moved_bytes(both) == 11 * 64 * 16 * 2 + 3 * 64 * 4 + 16 * 16 * 4
    step = cases.Case("step_linear_attention/BTHK", "step", 2, 1, 1, 16, torch.bfloat16)
    assert costs.moved_bytes(step) == 2 * (4 * 16 * 2 + 16 * 4 + 2 * 16 * 16 * 4)
    cached = cases.Case("step_softmax_attention", "step", 1, 1, 1, 16, torch.bfloat16, cache=10)
    assert costs.moved_bytes(cached) == (2 * 10 + 6) * 16 * 2
    assert costs.flops(cached) == 2 * 11 * 32


def test_summary_takes_geometric_means_over_rows_that_have_both() -> None:
    def row(op: str, ms: float | None, fla_ms: float | None, floor_ms: float = 1.0) -> dict[str, Any]:
        return {"op": op, "mode": "fwd", "ms": ms, "fla_ms": fla_ms, "sdpa_ms": None, "floor_ms": floor_ms}

    lines = [
        row("a", 2.0, 4.0),
        row("a", 4.0, 2.0, 0.25),
        row("a", 2.0, 18.0),
        row("a", None, 1.0),
        row("b", 3.0, None),
    ]
    a, b = report.summary(lines)
    assert (a["op"], a["mode"], a["rows"], a["compared"]) == ("a", "fwd", 4, 3)
    assert a["fla_ratio"] == pytest.approx((2 * 0.5 * 9) ** (1 / 3))
    assert a["floors"] == pytest.approx((2 * 16 * 2) ** (1 / 3))
    assert a["sdpa_ratio"] is None
    assert (b["fla_ratio"], b["compared"], b["floors"]) == (None, 0, pytest.approx(3.0))
