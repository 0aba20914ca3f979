"""The benchmark of the kernels, without a GPU: what is compared, and said when something fails."""

import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton.runtime.autotuner import Autotuner

import linattn_ref
from linattn_benchmarks.benchmark import BenchmarkRow, Rows, Size
from linattn_benchmarks.clock import Ceilings, CPUClock
from linattn_benchmarks.compare import l2_error
from linattn_benchmarks.kernels import candidates, correctness, costs, report, rows, settings, tuning
from linattn_benchmarks.kernels.candidates import Candidate
from linattn_benchmarks.kernels.settings import Inputs, KernelSetting
from linattn_benchmarks.registry import BENCHMARKS
from linattn_benchmarks.translation import FLA_FUNCTIONS
from linattn_book import results
from linattn_ref import ops

ROOT = Path(linattn_ref.__file__).parents[1]
CPU = torch.device("cpu")
TINY = list(settings.list_settings(Size.DRY_RUN))
SOME = [x for x in TINY if x.decay in ("none", "BTHK") and (x.softmax or x.mode != "fwd")]
in_words = lambda x: f"{x.op} {x.mode}"  # noqa: E731


def setting_of(op: str, mode: str) -> KernelSetting:
    return next(x for x in TINY if (x.op, x.mode) == (op, mode))


def known(name: str, setting: KernelSetting, factor: float = 1.0) -> Candidate:
    """Return our reference op as a candidate, right or wrong by a factor."""

    def call(x: Inputs) -> candidates.Result:
        output, state = getattr(ops, setting.function)(**{n: y for n, y in x.items() if n != "do"})
        return factor * output, state

    return Candidate(name, call, candidates.copy_state)


def refuse(x: Inputs) -> candidates.Result:
    raise NotImplementedError("not on this\nmachine")


def measured(setting: KernelSetting, who: list[Candidate]) -> BenchmarkRow:
    return rows.measure(setting, who, CPUClock(), Ceilings(1.0, 2.0), "CPU")


# --- rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SOME, ids=in_words)
def test_a_row_has_exactly_the_columns(setting: KernelSetting) -> None:
    row = measured(setting, [known("ours", setting), known("theirs", setting)])
    assert list(row) == list(rows.COLUMNS)
    assert row["remark"] is None
    assert row["fla_op"] == "theirs"
    assert row["floor_ms"] == pytest.approx(costs.count_moved_bytes(setting) / 1e6)
    assert row["tflops"] == pytest.approx(costs.count_flops(setting) / row["ms"] / 1e9)
    assert 0 <= row["error"] < 1e-5
    assert row["ms_low"] <= row["ms"] <= row["ms_high"]
    assert row["host_ms"] > 0
    assert row["fla_host_ms"] > 0


def test_who_fails_or_is_wrong_is_not_timed_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    setting = setting_of("chunk_linear_attention/BTH", "fwdbwd")
    wrong, fails = known("wrong", setting, 1.01), Candidate("fails", refuse)
    row = measured(setting, [known("ours", setting), wrong, fails, known("right", setting)])
    assert row["fla_op"] == "right"
    assert "fails: NotImplementedError: not on this machine" in row["remark"]
    assert "wrong: ArithmeticError: output is wrong: relative error 1.00e-02" in row["remark"]
    assert "fails is not timed" in capsys.readouterr().out


def test_without_ours_a_row_says_why_and_is_not_kept() -> None:
    setting = setting_of("chunk_linear_attention/none", "fwd")
    row = measured(setting, [Candidate("ours", refuse), known("right", setting)])
    assert row["ms"] is row["error"] is row["tflops"] is None
    assert row["remark"].startswith("ours: ")
    assert not rows.KERNELS.is_kept(row)


def test_an_error_that_is_no_number_is_an_error() -> None:
    setting = setting_of("chunk_linear_attention/none", "fwd")
    with pytest.raises(ArithmeticError, match="output is wrong: relative error nan"):
        correctness.check_candidate(known("nan", setting, math.nan), setting, CPU)


def test_a_wrong_gradient_is_an_error() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            return 2 * grads[0]

    setting = setting_of("chunk_linear_attention/BTHK", "fwdbwd")
    right = known("right", setting)
    wrong = right._replace(call=lambda x: right.call(x | {"log_decay": Doubled.apply(x["log_decay"])}))
    with pytest.raises(ArithmeticError, match=r"gradient of log_decay is wrong: relative error 1\.00e"):
        correctness.check_candidate(wrong, setting, CPU)


# --- candidates ---------------------------------------------------------------------------------------------


def fake_fla(name: str) -> Any:
    """Return FLA's function by its arguments: decays of its own, or whatever gate it is given."""

    def function(q: Any, k: Any, v: Any, **given: Any) -> Any:
        assert given.pop("output_final_state") is True
        gates = [given.pop(gate) for gate in ("g", "g_gamma", "gk") if gate in given]
        if own := FLA_FUNCTIONS[name].built_in_decay:
            given.pop("layer_idx", None), given.pop("num_layers", None)
            gates = [own(q.shape[2]).to(q.dtype)]
        assert given.pop("normalize", False) is False
        start = given.pop("initial_state", None)
        op = ops.chunk_delta_rule if "beta" in given else ops.chunk_linear_attention
        strength = [given.pop("beta")] if "beta" in given else []
        assert not given
        return op(q, k, v, *strength, *gates, initial_state=start)

    return function


@pytest.mark.parametrize("setting", [x for x in TINY if not x.softmax], ids=in_words)
def test_fla_gets_our_numbers_under_its_names(
    setting: KernelSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = candidates.FLA_CANDIDATES[setting.op]
    for module in {FLA_FUNCTIONS[name].module for name in names}:
        of_module = [name for name in names if FLA_FUNCTIONS[name].module == module]
        fake: Any = SimpleNamespace(**{name: fake_fla(name) for name in of_module})
        monkeypatch.setitem(sys.modules, f"fla.ops.{module}", fake)
    for candidate in candidates.list_fla_candidates(setting):
        assert correctness.check_candidate(candidate, setting, CPU) < 1e-5


def test_the_softmax_step_of_torch_and_the_layout_for_fla_hold_the_same_tokens() -> None:
    setting = setting_of("step_softmax_attention", "step")
    x = settings.make_inputs(setting, CPU)
    want = correctness.compute_reference(setting, x)["output"]
    torch_sdpa = candidates.wrap_sdpa(setting)
    assert torch_sdpa is not None
    got = torch_sdpa.call(torch_sdpa.arrange(x))[0].transpose(1, 2)
    assert l2_error(got, want) < 1e-5
    y = candidates.wrap_fla_softmax_step().arrange(x)
    for b in range(setting.B):
        q, k, v = y["q"][:, b], *(y[name][0, y["ends"][b] : y["ends"][b + 1]] for name in "kv")
        weights = (torch.einsum("bhk,shk->bhs", q, k) * setting.D**-0.5).softmax(-1)
        assert l2_error(torch.einsum("bhs,shv->bhv", weights, v), want[b : b + 1, 0]) < 1e-5


# --- counts and means ---------------------------------------------------------------------------------------


def test_bytes_and_operations_of_a_setting_counted_by_hand() -> None:
    chunk = KernelSetting("chunk_linear_attention/BTH", "fwd", 1, 64, 1, 16, torch.bfloat16)
    assert costs.count_flops(chunk) == 64 * (2 * 64 * 32 + 4 * 16 * 16)
    assert costs.count_moved_bytes(chunk) == 4 * 64 * 16 * 2 + 64 * 4 + 16 * 16 * 4
    both = KernelSetting("chunk_linear_attention/BTH", "fwdbwd", 1, 64, 1, 16, torch.bfloat16)
    assert costs.count_moved_bytes(both) == 11 * 64 * 16 * 2 + 3 * 64 * 4 + 16 * 16 * 4
    delta = KernelSetting("chunk_delta_rule/none", "fwdbwd", 1, 64, 1, 16, torch.bfloat16)
    assert costs.count_flops(delta) == 3 * 64 * (4 * 64 * 32 + 6 * 16 * 16)
    assert costs.count_moved_bytes(delta) == 11 * 64 * 16 * 2 + 3 * 64 * 2 + 16 * 16 * 4
    step = KernelSetting("step_linear_attention/BTHK", "step", 2, 1, 1, 16, torch.bfloat16)
    assert costs.count_moved_bytes(step) == 2 * (4 * 16 * 2 + 16 * 4 + 2 * 16 * 16 * 4)
    cached = KernelSetting("step_softmax_attention", "step", 1, 1, 1, 16, torch.bfloat16, cache=10)
    assert costs.count_moved_bytes(cached) == (2 * 10 + 6) * 16 * 2
    assert costs.count_flops(cached) == 2 * 11 * 32


def test_summary_takes_geometric_means_over_rows_that_have_both() -> None:
    def row(op: str, ms: float | None, fla_ms: float | None, floor_ms: float = 1.0) -> BenchmarkRow:
        return {"op": op, "mode": "fwd", "ms": ms, "fla_ms": fla_ms, "sdpa_ms": None, "floor_ms": floor_ms}

    lines = [
        row("a", 2.0, 4.0),
        row("a", 4.0, 2.0, 0.25),
        row("a", 2.0, 18.0),
        row("a", None, 1.0),
        row("b", 3.0, None),
    ]
    a, b = report.summarise(lines)
    assert (a["op"], a["mode"], a["rows"], a["compared"]) == ("a", "fwd", 4, 3)
    assert a["fla_ratio"] == pytest.approx((2 * 0.5 * 9) ** (1 / 3))
    assert a["floors"] == pytest.approx((2 * 16 * 2) ** (1 / 3))
    assert a["sdpa_ratio"] is None
    assert (b["fla_ratio"], b["compared"], b["floors"]) == (None, 0, pytest.approx(3.0))


# --- FLA's tuning -------------------------------------------------------------------------------------------


def test_choices_are_forgotten_by_tuners_of_other_libraries_too() -> None:
    class Theirs(Autotuner):
        def __init__(self) -> None:
            self.cache = {(128, 128): "what suits another shape"}

    theirs = Theirs()
    tuning.forget_choices()
    assert theirs.cache == {}


def test_beforehand_each_configuration_is_called_once_and_none_is_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Autotuner, "do_bench", None)  # what is there comes back after the test
    tuning.time_nothing()
    called: list[int] = []
    times = Autotuner.do_bench.fget(None)(lambda: called.append(1), quantiles=(0.5, 0.2, 0.8))
    assert (called, times) == ([1], [0.0, 0.0, 0.0])


@pytest.mark.parametrize("keep", ["0", "1"])
def test_what_fla_has_chosen_is_forgotten_before_each_row_unless_told(
    keep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    monkeypatch.setenv("FLA_CACHE_RESULTS", keep)
    monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "0")
    monkeypatch.setattr(tuning, "forget_choices", lambda: happened.append("forgotten"))
    monkeypatch.setattr(rows, "measure", lambda *_: happened.append("measured"))
    for setting in TINY[:2]:
        rows.measure_setting(setting, Size.DRY_RUN)
    assert happened == [*["forgotten"] * (keep == "0"), "measured"] * 2
    assert os.environ["TRITON_CACHE_AUTOTUNING"] == keep


# --- the command --------------------------------------------------------------------------------------------


def test_the_kernels_go_through_a_dry_run_without_installation(tmp_path: Path) -> None:
    words = ["kernels", "--dry-run", "--out", str(tmp_path), "--only", "op=chunk_linear_attention/none"]
    paths = {**os.environ, "PYTHONPATH": ".:kernels:study:benchmarks:book"}
    process = subprocess.run(
        [sys.executable, "-m", "linattn_benchmarks", *words, "mode=fwd"],
        cwd=ROOT, env=paths, capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    there: Rows = results.load("kernels", directory=tmp_path)
    (row,) = there
    assert row["remark"] is None
    assert row["error"] < 1e-5
    assert row["device"] == "CPU, dry run"
    assert "Geometric means" in process.stdout


def test_the_page_knows_which_sources_decide_the_rows() -> None:
    from linattn_book.builders.kernels import MODULES

    assert MODULES["kernels"] == (BENCHMARKS["kernels"].split(":")[0],)
