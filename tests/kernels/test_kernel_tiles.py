"""Test more of everything than one program, tile or warp takes, and backwards that only some calls take.

Each of these tests catches a planted mistake that all others had missed.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton.language as tl
from torch import Tensor

import linattn_kernels
import linattn_ref.ops
from linattn_kernels import hardware, launch_config, scalar_decay
from linattn_kernels.decays import decay_sums_kernel
from linattn_kernels.launch_config import LaunchConfig
from linattn_ref.ops import KVCache, chunk_linear_attention
from tests.kernels.kernel_bounds import assert_accurate
from tests.kernels.kernel_calls import (
    KERNELS,
    call_in_parts,
    kernel_call,
    kernel_step_call,
    split_decay_gradient,
)
from tests.kernels.kernel_cases import example, examples
from tests.ops.ladder import inputs_of, precision_bounds, truth_of, upstream_of
from tests.support.closeness import assert_close

every_scalar_decay = pytest.mark.parametrize("decay", [None, "head", "token"])

# --- sequences, heads, columns, segments -------------------------------------------------------------------


@pytest.mark.parametrize("case", examples(T=20, B=2, H=3), ids=str)
def test_many_sequences_of_many_heads(case: Any) -> None:
    assert_accurate(case, kernel_call(case), "kernel")


@pytest.mark.parametrize("case", examples(T=2, B=2, H=3), ids=str)
def test_steps_of_many_sequences_of_many_heads(case: Any) -> None:
    """A slice of one token is contiguous where there is one sequence, and only there."""
    x = {name: y.clone() for name, y in inputs_of(case).items()}
    with torch.no_grad():
        results = call_in_parts(case, 1, kernel_step_call(case))(x)
    for name, want in truth_of(case).items():
        assert_close(name, results[name], want, precision_bounds(case)[name])


@every_scalar_decay
@pytest.mark.parametrize(
    "sizes",
    [{"T": 20, "B": 2, "H": 3}, {"T": 200, "H": 1}, {"T": 200, "H": 1, "K": 128}],
    ids=["many", "segments", "wide segments"],
)
def test_passes_in_half_precision(decay: str | None, sizes: dict[str, int]) -> None:
    case = example("linear_attention", decay, dtype=torch.float16, **sizes)
    assert_accurate(case, split_decay_gradient(kernel_call(case)) if decay else kernel_call(case), "passes")


@pytest.fixture
def small_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs have as much shared memory as on GPUs outside of data centres."""
    monkeypatch.setattr(hardware, "read_max_shared_memory", lambda x: 99 * 1024)


@pytest.mark.usefixtures("small_shared_memory")
@pytest.mark.parametrize(
    "wrap", [lambda call: call, split_decay_gradient], ids=["all gradients", "decay gradient apart"]
)
@pytest.mark.parametrize("decay", ["head", "token"])
def test_narrow_tiles_where_shared_memory_is_short(decay: str, wrap: Callable) -> None:
    """More columns than one program has room for, in half precision."""
    case = example("linear_attention", decay, dtype=torch.float16, T=100, H=1, K=128, V=128)
    assert_accurate(case, wrap(kernel_call(case)), "small memory")


@pytest.mark.usefixtures("small_shared_memory")
@pytest.mark.parametrize("decay", [None, "channel"])
def test_narrow_tiles_of_other_decays(decay: str | None) -> None:
    case = example("linear_attention", decay, dtype=torch.float16, T=100, H=1, K=128, V=128)
    assert_accurate(case, kernel_call(case), "small memory")


@pytest.mark.usefixtures("small_shared_memory")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_narrow_tiles_of_softmax(dtype: torch.dtype) -> None:
    case = example("softmax_attention", None, dtype=dtype, T=150, H=1, K=64, V=128, chunk_size=128)
    assert_accurate(case, kernel_call(case), "small memory")


@pytest.mark.parametrize(("programs", "wanted"), [(16, 8), (1, 45), (1000, 1)])
def test_a_sequence_has_as_many_segments_as_pay(
    monkeypatch: pytest.MonkeyPatch, programs: int, wanted: int
) -> None:
    """132 multiprocessors; 1024 chunks: more than sqrt(2048) segments cost more than they save."""
    monkeypatch.setattr(launch_config, "count_multiprocessors", lambda x: 132)
    config = LaunchConfig(128, 8, 3)
    layout = launch_config.choose_segments(1024 * 64, 64, programs, config, torch.empty(0), None)
    assert layout[:3] == (64, 1024, wanted)
    assert (wanted - 1) * layout.chunks_per_segment < 1024 <= wanted * layout.chunks_per_segment


def test_more_heads_than_one_program_sums() -> None:
    case = example("linear_attention", "token", T=5, H=17)
    assert_accurate(case, kernel_call(case), "kernel")


def test_sums_write_nothing_after_the_last_head() -> None:
    B, T, H, C, M = 1, 20, 3, 16, 2
    size = B * H * M * C
    sums, weights = torch.full((size + 64,), 7.0), torch.full((2 * size + 64,), 7.0)
    decay_sums_kernel[(B * M, 1)](
        -torch.rand(B, T, H), sums, weights, T, H, M, C, 4, tl.float32, True, PDL=False
    )
    assert (sums[size:] == 7).all()
    assert (sums[:size] <= 0).all()
    assert (weights[2 * size :] == 7).all()
    assert (weights[: 2 * size] <= 1).all()
    G, (from_start, to_end) = sums[:size].view(-1, C), weights[: 2 * size].view(-1, 2, C).unbind(1)
    torch.testing.assert_close(from_start, G.exp())
    torch.testing.assert_close(to_end, (G[:, -1:] - G).exp())


@pytest.mark.parametrize(("decay", "T"), [(None, 20), ("head", 20), ("token", 20), ("channel", 200)])
def test_states_of_many_blocks(decay: str | None, T: int) -> None:
    case = example("linear_attention", decay, T=T, H=1, K=64, V=64)
    assert_accurate(case, kernel_call(case), "kernel")


def test_softmax_step_with_more_tiles_than_slices() -> None:
    """A slice carries maximum, denominator and output from tile to tile."""
    q, k, v = (torch.randn(1, 1, 1, width) for width in (16, 16, 32))
    cache = KVCache(torch.randn(1, 1100, 1, 16), torch.randn(1, 1100, 1, 32))
    got, want = (
        package.step_softmax_attention(4 * q, k, v, state=cache)
        for package in (linattn_kernels, linattn_ref.ops)
    )
    assert_close("output", got.output, want.output, 1e-6)


# --- which backward is taken, and what it is given ---------------------------------------------------------


@every_scalar_decay
@pytest.mark.parametrize("K", [16, 128])
def test_passes_are_taken_where_the_gradient_of_decays_is_not_wanted(
    decay: str | None, K: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("chunk by chunk")

    monkeypatch.setattr(scalar_decay, "backward_by_chunks", never)
    case = example("linear_attention", decay, T=3, H=1, K=K, dtype=torch.float16)
    x = {name: y.clone().requires_grad_(name != "log_decay") for name, y in inputs_of(case).items()}
    kernel_call(case)(x)["output"].sum().backward()
    assert all(y.grad is not None for name, y in x.items() if name != "log_decay")


@every_scalar_decay
@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("K", [16, 128])
def test_output_alone_has_the_gradients_of_an_unused_state(decay: str | None, start: bool, K: int) -> None:
    case = example("linear_attention", decay, T=20, H=1, K=K, dtype=torch.float16, start=start)
    x = inputs_of(case)
    leaves = [name for name in x if name != "log_decay"]

    def gradients(state: bool) -> tuple[Tensor, ...]:
        y = {name: z.clone().requires_grad_(name in leaves) for name, z in x.items()}
        results = kernel_call(case)(y)
        upstream = [upstream_of(case)["output"].to(torch.float16), torch.zeros_like(results["state"])]
        loss = [results["output"], results["state"]]
        return torch.autograd.grad(loss[: 1 + state], [y[name] for name in leaves], upstream[: 1 + state])

    for name, got, want in zip(leaves, gradients(False), gradients(True), strict=True):
        assert got.isfinite().all(), name
        assert torch.equal(got, want), name


# --- decays ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [-1e3, -1e38])
def test_a_head_that_forgets_beyond_all_measure(depth: float) -> None:
    case = example("linear_attention", "head", T=20)
    x = inputs_of(case)
    x = {**x, "log_decay": torch.full_like(x["log_decay"], depth)}
    output, state = KERNELS[case.op].function(**x)
    want = chunk_linear_attention(**{name: y.double() for name, y in x.items()})
    assert_close("output", output, want.output, 1e-5)
    assert_close("state", state, want.state, 1e-5)


@pytest.mark.parametrize("decay", ["head", "token", "channel"])
def test_tiny_gradients_of_hard_decays_keep_their_digits(decay: str) -> None:
    """Beside them the diagonal, where nothing decays, is huge: it must not take part and cancel."""
    case = example("linear_attention", decay, T=20, H=1)

    def gradient(function: Callable[..., Any], dtype: torch.dtype) -> Tensor:
        x = {name: y.to(dtype) for name, y in inputs_of(case).items()}
        g = torch.full_like(x["log_decay"], -20.0).requires_grad_()
        function(**{**x, "log_decay": g}).output.backward(upstream_of(case)["output"].to(dtype))
        assert g.grad is not None
        return g.grad.double()

    got, want = (
        gradient(KERNELS[case.op].function, torch.float32),
        gradient(chunk_linear_attention, torch.float64),
    )
    assert 0 < want.abs().max() < 1e-6
    assert (got - want).abs().max() < 1e-4 * want.abs().max()


@pytest.mark.parametrize("channels", [32, 64])
def test_hard_decays_in_some_tiles_of_channels(channels: int) -> None:
    case = example("linear_attention", "channel", T=20, H=1, K=64)

    def results(function: Callable[..., Any], dtype: torch.dtype) -> dict[str, Tensor]:
        x = {name: y.to(dtype).clone() for name, y in inputs_of(case).items()}
        x["log_decay"][..., :channels] = -5.0
        output = function(**{name: y.requires_grad_() for name, y in x.items()}).output
        output.backward(upstream_of(case)["output"].to(dtype))
        return {"output": output.detach(), **{name: y.grad for name, y in x.items() if y.grad is not None}}

    got, want = (
        results(KERNELS[case.op].function, torch.float32),
        results(chunk_linear_attention, torch.float64),
    )
    assert got.keys() == want.keys()
    for name in want:
        assert_close(name, got[name], want[name], 1e-5)
