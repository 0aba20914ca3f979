"""Hold every kernel to float64 on a GPU, in every dtype; on a CPU a few small cases in Triton's interpreter.

``make test-gpu`` runs this file with several processes that share the GPU, since compiling is what takes
the time (pytest-xdist), and with ``ladder_report.py``, which makes a table of what the tests measure. All
checks of one case run in one process, which solves it in float64 once. A test that crashes its process, or
hangs, is lost alone.

Bounds are explained in ``kernel_bounds.py`` and ``measurements.py``. Memory that nothing has written holds
NaN.
"""

import ctypes
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from linattn_kernels.hardware import run_on_device_of_q
from tests.kernels.kernel_calls import (
    call_in_parts,
    call_on_strided_memory,
    call_under_autocast,
    compile_call,
    kernel_call,
    kernel_step_call,
    split_decay_gradient,
)
from tests.kernels.kernel_cases import IN_INTERPRETER, ON_GPU
from tests.kernels.large_tensors import measure_large, measure_large_step
from tests.kernels.measurements import (
    DEVICE,
    LONG,
    Measurement,
    compare_bits,
    compare_runs,
    compare_with_float64,
    reference_call,
    run_problem,
    solve,
    widen_bounds,
)
from tests.ops.ladder import (
    EPS,
    bounds_from,
    make_inputs,
    moves_of,
    split_call,
    step_call_of,
    upstream_like,
)
from tests.ops.ladder_cases import Case

GPU = DEVICE == "cuda"
CASES = ON_GPU if GPU else IN_INTERPRETER
if GPU:  # a call of the driver that hangs can be ended with its process only
    pytestmark = pytest.mark.timeout(420, method="thread")

Check = Callable[[list[Measurement]], None]


def every(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """Return a mark that runs a test for every case; one process runs all tests of a case."""
    gpu = [pytest.mark.gpu] if GPU else []
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(case, id=str(case), marks=[*gpu, pytest.mark.xdist_group(str(case))])
            for case in dict.fromkeys(cases)
        ],
    )


only_on_gpu = pytest.mark.skipif(not GPU, reason="no CUDA device is here")
large_timeout = pytest.mark.timeout(1200, method="thread")  # they wait for each other


@pytest.fixture
def check(record_property: Callable[[str, object], None]) -> Check:
    """Return a function that records measurements for the report and asserts that all are within bounds."""

    def check(measurements: list[Measurement]) -> None:
        record_property("measurements", [tuple(m) for m in measurements])
        assert measurements, "nothing was measured"
        exceeded = [
            f"{m.name}: error {m.error:.3e} > {m.bound:.3e}" for m in measurements if m.bound_used > 1
        ]
        assert not exceeded, "; ".join(exceeded)

    return check


@pytest.fixture(autouse=True)
def _share_gpu(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let tests of large tensors run alone on the GPU, and end a process that has lost it."""
    if not GPU:
        yield
        return
    alone = request.node.callspec.params["case"] in (*CASES.large, *CASES.large_steps)
    if alone:
        solve.cache_clear()
    with (tmp_path_factory.getbasetemp().parent / "gpu.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
        try:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except RuntimeError:  # after an illegal access all later calls of this process would fail
            os._exit(3)


# --- against float64 ---------------------------------------------------------------------------------------


@every(CASES.precision)
def test_precision(case: Case, check: Check) -> None:
    check(compare_with_float64(case, kernel_call(case)))


@every(case for case in CASES.precision if case.decay in ("head", "token"))
def test_decays_fixed(case: Case, check: Check) -> None:
    """Where the gradient of the decays is not wanted there is another backward."""
    check(compare_with_float64(case, split_decay_gradient(kernel_call(case))))


@every(CASES.laws)
def test_split(case: Case, check: Check) -> None:
    """Split in the first chunk, anywhere, and before the last token; and in four parts."""
    kernel, third = kernel_call(case), case.T // 3
    calls = [split_call(case, at, kernel, kernel) for at in (1, case.T * 2 // 5 + 1, case.T - 1)]
    calls.append(split_call(case, third, reference_call(replace(case, T=third)), kernel))
    calls.append(call_in_parts(case, case.T // 4 + 3, kernel))
    check([m for call in calls for m in compare_with_float64(case, call)])


@only_on_gpu
@every(CASES.laws)
def test_inductor(case: Case, check: Check) -> None:
    check(compare_with_float64(case, compile_call(kernel_call(case), "inductor")))


# --- the same bits -----------------------------------------------------------------------------------------


@every(CASES.laws)
def test_bits(case: Case, check: Check) -> None:
    """Three runs, forward and backward, by every backward that there is."""
    calls = [kernel_call(case)]
    if case.decay in ("head", "token"):
        calls.append(split_decay_gradient(kernel_call(case)))
    found = []
    for call in calls:
        first = run_problem(case, call)
        found += [m for _ in range(2) for m in compare_runs(case, run_problem(case, call), first)]
    check(found)


@every(CASES.laws)
def test_strided(case: Case, check: Check) -> None:
    check(compare_bits(case, call_on_strided_memory(kernel_call(case))))


@every(CASES.laws)
def test_autocast(case: Case, check: Check) -> None:
    check(compare_bits(case, call_under_autocast(kernel_call(case), DEVICE)))


@only_on_gpu
@every(CASES.laws)
def test_graph(case: Case, check: Check) -> None:
    """The forward is captured in a CUDA graph and replayed on other inputs."""
    leaves = {name: torch.zeros_like(x) for name, x in solve(case).leaves.items()}
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            kernel_call(case)(leaves)  # compiles
        torch.cuda.current_stream().wait_stream(stream)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            got = kernel_call(case)(leaves)
        for name, x in solve(case).leaves.items():
            leaves[name].copy_(x)
        captured.replay()
        check(compare_runs(case, (got, {}), (kernel_call(case)(leaves), {})))


@only_on_gpu
@every(CASES.laws)
def test_fresh_thread(case: Case, check: Check) -> None:
    """A thread that has done nothing yet, as autograd's have: a launcher finds a CUDA context there.

    The driver is asked, since poisoned memory is written by a launch, which would hide that there is none.
    """
    first = next(iter(solve(case).leaves.values()))
    with ThreadPoolExecutor(1) as thread:
        before = thread.submit(_has_context, first).result()
        inside = thread.submit(run_on_device_of_q(_has_context), first).result()
    names = {"no context before": not before, "context": inside}
    check([Measurement(name, 0.0 if right else float("inf"), 0.0) for name, right in names.items()])


def _has_context(x: Tensor) -> bool:
    """Return whether the driver knows a CUDA context of this thread."""
    context = ctypes.c_void_p()
    if ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context)) != 0:
        raise RuntimeError("the driver does not say whether this thread has a CUDA context")
    return bool(context)


# --- token by token ----------------------------------------------------------------------------------------


@every(CASES.steps)
def test_steps(case: Case, check: Check) -> None:
    """Token by token without gradients. Only the output is rounded: the ladder's own bound holds."""
    leaves = {name: x.to(DEVICE) for name, x in make_inputs(case, case.generator("inputs")).items()}
    call = reference_call(case)
    with torch.no_grad():
        upstream = upstream_like(case, call({name: x.double() for name, x in leaves.items()}))
        copies = {name: x.clone() for name, x in leaves.items()}
        results = call_in_parts(case, 1, kernel_step_call(case))(copies)
    upstream = {name: x.to(DEVICE) for name, x in upstream.items()}
    exact, _, moves = moves_of(case, call, leaves, upstream, lambda name: EPS)
    bounds = bounds_from(case, moves)
    if case.T >= LONG:
        with torch.no_grad():
            reference = call_in_parts(case, 1, step_call_of(case))(leaves)
        bounds |= widen_bounds(bounds, (reference, {}), (exact, {}))
    check(compare_runs(case, (results, {}), (exact, {}), bounds))


@every(CASES.laws)
def test_step_gradients(case: Case, check: Check) -> None:
    """Four tokens, one by one, where gradients are wanted."""
    short = replace(case, T=4)
    check(compare_with_float64(short, call_in_parts(short, 1, kernel_step_call(short))))


@every(case for case in CASES.laws if case.op == "linear_attention")
def test_in_place(case: Case, check: Check) -> None:
    """A linear state is updated in place: the tensor given holds what comes back."""
    one = replace(case, T=1)
    x = {name: leaf.clone() for name, leaf in solve(one).leaves.items()}
    with torch.no_grad():
        results = kernel_step_call(one)(x)
    given = x["initial_state"]
    if results["state"].data_ptr() != given.data_ptr():
        check([Measurement("state", float("inf"), 0.0)])
    check(compare_runs(one, ({"state": given}, {}), ({"state": results["state"]}, {})))


# --- more numbers than 32 bits count -----------------------------------------------------------------------


@every(CASES.large)
@large_timeout
def test_large(case: Case, check: Check) -> None:
    check(measure_large(case))


@every(CASES.large_steps)
@large_timeout
def test_large_step(case: Case, check: Check) -> None:
    check(measure_large_step(case))
