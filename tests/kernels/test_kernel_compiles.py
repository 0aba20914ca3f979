"""Test that every kernel compiles, for Hopper without reading a register that is not written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.compile_kernels import NVIDIA_TOOLS, find_unwritten_reads, uniform_registers

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    not (NVIDIA_TOOLS / "nvdisasm").exists(), reason="Triton came without its tools"
)


@pytest.mark.timeout(700)  # two at a time on two cores they take 200 s each; the process has 600
@pytest.mark.parametrize(
    ("gpu", "dtype"),
    [
        *(pytest.param("90", dtype, marks=pytest.mark.slow) for dtype in ("float32", "bfloat16", "float16")),
        pytest.param("89", "float32", marks=pytest.mark.other_gpus),
        *(pytest.param(gpu, "bfloat16", marks=pytest.mark.other_gpus) for gpu in ("89", "100", "120")),
    ],
)
def test_all_kernels_compile_and_have_the_memory(gpu: str, dtype: str, tmp_path: Path) -> None:
    """In a process of its own: here Triton interprets."""
    environment = {name: x for name, x in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "tests.kernels.compile_kernels", "--gpu", gpu, dtype]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.endswith(" 0 faults\n")


@pytest.mark.parametrize(
    ("instruction", "reads", "writes"),
    [
        ("UIADD3 UR26, UP0, UR33, 0x40, URZ", {33}, {26}),
        ("UIADD3.X UR27, UR33, -0x7fffffe0, URZ, UP0, !UPT", {33}, {27}),
        ("@!UP1 UMOV UR4, 0x400", set(), {4}),
        ("ULDC.64 UR34, c[0x0][0x208]", set(), {34, 35}),
        ("R2UR UR5, R20", set(), {5}),
        ("HGMMA.64x32x16.F32.BF16 R24, gdesc[UR8].tnspB, RZ, !UPT", {8, 9, 10, 11}, set()),
        ("HGMMA.64x32x16.F32.BF16 R24, R40, gdesc[UR8].tnspB, R24", {10, 11}, set()),
        ("@!P2 LDG.E.128 R24, desc[UR34][R144.64]", {34, 35}, set()),
        ("STS.128 [R7+UR32+0x1800], R28", {32}, set()),
        ("VIADD R181, R148, UR32", {32}, set()),
    ],
)
def test_registers_that_an_instruction_reads_and_writes(instruction: str, reads: set, writes: set) -> None:
    assert uniform_registers(instruction) == (reads, writes)


def test_a_read_of_an_unwritten_register_is_found() -> None:
    """The code is what ptxas 12.8 made of the backward kernel at K = 64, V = 32, C = 64."""
    code = [
        "ULDC.64 UR34, c[0x0][0x208]",
        "UMOV UR32, 0x400",
        "UIADD3 UR26, UP0, UR33, 0x40, URZ",
        "UIADD3 UR22, UP0, UR26, 0x40, URZ",
    ]
    assert find_unwritten_reads(code) == code[2:3]
    assert find_unwritten_reads(["UMOV UR33, 0x10", *code]) == []
