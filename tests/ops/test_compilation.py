"""torch.compile makes few graphs for many lengths, and torch.export one, where no loop runs over time."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from linattn_ref import ops
from tests.ops.every_form import BY_NAME, EXACT, arguments
from tests.ops.ladder import OPS
from tests.support.closeness import assert_close

# a Python loop over tokens or tiles makes a graph a length; these have none
LOOP_FREE = [name for name in BY_NAME if name not in ("chunk-softmax_attention",) and "recurrent" not in name]


def graphs(function: Callable[..., Any], calls: list[dict[str, Any]]) -> int:
    """Return how many graphs a compiled function needs for these calls."""
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(function, backend=counter)
    for call in calls:
        compiled(**call)
    return counter.frame_count


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOP_FREE)
def test_compiled_form_is_not_compiled_again_for_every_length(name: str) -> None:
    shortest = 18 if BY_NAME[name].form == "associative" else 70  # more than a chunk; few levels of a tree
    calls = [arguments(name, T) for T in range(shortest, shortest + 10)]
    assert graphs(BY_NAME[name].function, calls) <= 3


@pytest.mark.slow
@pytest.mark.parametrize(("decay", "most"), [("token", 4), ("channel", 5)])
def test_chunk_form_has_one_graph_for_every_doubling_of_its_chunks(decay: str, most: int) -> None:
    """After the first, fixed one: up to a chunk, 2 to 3 chunks, 4 to 7, whether or not the last is full.

    With a decay per channel, a chunk has chunks of 16 in it: their number doubles as well.
    """
    name = "chunk-linear_attention"
    lengths = (34, 60, 37, 33, 100, 160, 130, 180, 250, 400, 330, 410)
    calls = [arguments(name, T, decay=decay) | {"chunk_size": 64} for T in lengths]
    assert graphs(BY_NAME[name].function, calls) <= most


@pytest.mark.parametrize("name", ["parallel-linear_attention", "parallel-softmax_attention", "parallel-wkv"])
def test_parallel_form_is_not_compiled_again_for_any_length(name: str) -> None:
    """After the first, fixed one."""
    calls = [arguments(name, T) for T in (34, 64, 200, 65, 128, 33)]
    assert graphs(BY_NAME[name].function, calls) <= 2


def test_compiled_softmax_step_is_not_compiled_again_for_every_token() -> None:
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(ops.step_softmax_attention, backend=counter)
    cache = None
    for _ in range(12):
        _, cache = compiled(*torch.randn(3, 1, 1, 2, 16), state=cache)
    assert counter.frame_count <= 4


# --- one exported program for a range of lengths -----------------------------------------------------------


class Program(nn.Module):
    """A form as a module of its tensors, for torch.export."""

    def __init__(self, name: str, other: dict[str, Any]) -> None:
        super().__init__()
        self.function, self.other = BY_NAME[name].function, other

    def forward(self, x: dict[str, Tensor]) -> Tensor:
        return self.function(**x, **self.other).output


LONGEST = 64
ONE_PROGRAM = [
    "parallel-linear_attention",
    "parallel-softmax_attention",
    "parallel-wkv",
    "chunk-linear_attention",
    "chunk-rwkv6",
    "chunk-delta_rule",
    "chunk-rwkv7",
]


@pytest.mark.parametrize("name", ONE_PROGRAM)
def test_one_exported_program_serves_every_length(name: str) -> None:
    """Chunk forms: up to ``chunk_size`` tokens, beyond which a program depends on the number of chunks."""
    call, timed = arguments(name, 40), OPS[BY_NAME[name].op].timed
    tensors = {key: x for key, x in call.items() if isinstance(x, Tensor)}
    other = {key: x for key, x in call.items() if key not in tensors}
    if "chunk" in name:
        other["chunk_size"] = LONGEST
    length = torch.export.Dim("T", min=1, max=LONGEST if "chunk" in name else 4096)
    shapes = {key: {1: length} if key in timed and x.ndim > 1 else {} for key, x in tensors.items()}
    program = torch.export.export(Program(name, other), (tensors,), dynamic_shapes=(shapes,)).module()
    for T in (1, 2, 33, LONGEST, *([] if "chunk" in name else [200])):
        x = {key: y for key, y in arguments(name, T).items() if key in tensors}
        assert_close(f"{name}, T = {T}", program(x), BY_NAME[name].function(**x, **other).output, EXACT)
