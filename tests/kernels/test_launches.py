"""A kernel is launched again without Triton only where Triton would take the same compilation."""

from itertools import product
from typing import Any

import pytest
import torch
import triton
from triton.runtime.jit import JITFunction

from linattn_kernels import launches
from linattn_kernels.launches import Launcher, describe_arguments
from linattn_kernels.tiles import make_descriptor
from tests.kernels.compile_kernels import DriverWithoutGPU


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Triton believe in a GPU."""
    monkeypatch.setattr(triton.runtime.driver, "_active", DriverWithoutGPU(90))


def one_argument(x: Any) -> None:
    """Stand for a kernel."""


MEMORY = torch.zeros(64, dtype=torch.float32)
TILES = torch.zeros(1, 32, 1, 32)
VALUES = [
    *(1, True, 1.0, 0, False, 0.0, 2, 2.0, 16, 16.0, 17, 2**31 - 1, 2**31, 2**31 + 16, -1, None),
    *(MEMORY, MEMORY[1:], MEMORY[4:], torch.nn.Parameter(MEMORY), MEMORY.int(), MEMORY.bfloat16()),
    *(make_descriptor(TILES, *tile) for tile in ((16, 16), (16, 32), (32, 16))),
    *(make_descriptor(TILES.half(), *tile) for tile in ((16, 16), (16, 32))),
]


def test_arguments_that_are_described_alike_are_compiled_alike(no_gpu: None) -> None:
    """Triton's own account is the judge: where it differs, the descriptions must."""
    binder = JITFunction(one_argument).device_caches[0][-1]
    accounts = [(describe_arguments((x,), {}), binder(x)[1]) for x in VALUES]
    alike = [(a, b) for (x, a), (y, b) in product(accounts, accounts) if x == y]
    assert len(alike) > len(VALUES)  # some are: aligned memory here and there
    assert all(a == b for a, b in alike)


class Compiled:
    """Stand for what Triton returns, and note how often it is launched and compiled."""

    def __init__(self, *unspecialized: int) -> None:
        self.params = [
            type("Param", (), {"num": i, "do_not_specialize": i in unspecialized})() for i in range(2)
        ]
        self.calls: list[tuple[str, tuple[int, ...], tuple]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        """Launch by way of Triton where no three sizes are given, else without it."""
        kind = "again" if len(grid) > 2 else "first"

        def launch(*args: Any, **options: Any) -> "Compiled":
            self.calls.append((kind, grid[:1], args))
            return self

        return launch


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, no_gpu: None) -> type[Compiled]:
    """Let launchers believe that they are not interpreted, and keep stand-ins."""
    monkeypatch.setattr(launches, "INTERPRETED", False)
    monkeypatch.setattr(launches, "CompiledKernel", Compiled)
    return Compiled


def test_what_was_compiled_is_launched_with_the_arguments_and_the_grid_of_now(
    compiled: type[Compiled],
) -> None:
    kernel = compiled()
    launcher = Launcher(kernel)
    other = torch.ones(64)
    launcher[(3,)](MEMORY, 5, num_warps=4)
    launcher[(7,)](other, 5, num_warps=4)
    assert [call[:2] for call in kernel.calls] == [("first", (3,)), ("again", (7,))]
    assert kernel.calls[1][2][0] is other


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((MEMORY, 6), {"num_warps": 4}),
        ((MEMORY[1:], 5), {"num_warps": 4}),
        ((MEMORY, 5), {"num_warps": 8}),
    ],
    ids=["another number", "another alignment", "another option"],
)
def test_other_arguments_go_to_triton(compiled: type[Compiled], args: tuple, options: dict) -> None:
    kernel = compiled()
    launcher = Launcher(kernel)
    launcher[(3,)](MEMORY, 5, num_warps=4)
    launcher[(3,)](*args, **options)
    assert [call[0] for call in kernel.calls] == ["first", "first"]


def test_a_number_that_triton_does_not_look_at_is_free_up_to_32_bits(compiled: type[Compiled]) -> None:
    kernel = compiled(1)
    launcher = Launcher(kernel)
    for number in (5, 16, 2**31):
        launcher[(3,)](MEMORY, number)
    assert [call[0] for call in kernel.calls] == ["first", "again", "first"]


def test_the_table_does_not_grow_for_ever(compiled: type[Compiled], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "MAX_KEPT", 10)
    launcher = Launcher(compiled())
    for number in range(100):
        launcher[(3,)](MEMORY, number)
    assert 0 < len(launcher._compiled) <= 10


def test_what_triton_does_not_hand_out_is_not_kept(
    compiled: type[Compiled], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launches, "CompiledKernel", int)
    launcher = Launcher(compiled())
    launcher[(3,)](MEMORY, 5)
    assert not launcher._compiled
