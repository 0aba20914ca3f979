"""What a kernel of an exercise may compute with, at the edges of numbers: as the grader has it, or a GPU.

Run as a program it writes what either makes of it. Triton is an interpreter for the one and a compiler for
the other, so they are two processes.
"""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

HALF, DOUBLE = "tl.float16", "tl.float64"
# of a and b in float32; c is of moderate size, and products of i are exact, so that all round to one number
OF_FLOATS = [
    *("a + b", "a - b", "a * b", "a / b", "-a", "tl.fdiv(a, b)", "tl.div_rn(a, b)", "tl.fma(a, b, 1.0)"),
    *("tl.maximum(a, b)", "tl.minimum(a, b)", "max(a, b)", "min(a, b)", "tl.abs(a)"),
    *(f"tl.{name}(a, b, propagate_nan=tl.PropagateNan.ALL)" for name in ("maximum", "minimum")),
    *(f"tl.{name}(a)" for name in ("floor", "ceil", "sqrt", "rsqrt", "sqrt_rn", "erf", "sigmoid")),
    *(f"tl.{name}(a)" for name in ("exp", "exp2", "log", "log2")),
    *("tl.sin(c)", "tl.cos(c)"),
    *(f"tl.where(a {sign} b, 1.0, 0.0)" for sign in ("<", "<=", ">", ">=", "==", "!=")),
    *(
        "tl.where((a < b) & ~(b < 1.0) | (a == 2.5), a, b)",
        "(a < b) * a",
        "(a < b) * 3 - b",
        "(a > b).to(tl.int32)",
    ),
    *("a.to(tl.int1).to(tl.float32)", "c.to(tl.int32)", "c.to(tl.int64)", "(c * 7).to(tl.int32) / 2"),
    *(f"a.to({HALF}).to(tl.float32)", f"a.to({HALF}) + b.to({HALF})", f"a.to({HALF}) * b.to({HALF})"),
    *(f"tl.maximum(a.to({HALF}), b.to({HALF}))", f"a.to({HALF}) - 1.5", f"a.to({HALF}) * 1e5"),
    *(f"tl.{name}(a.to({DOUBLE}))" for name in ("sqrt", "exp", "log", "floor", "ceil", "rsqrt", "erf")),
    *(f"a.to({DOUBLE}) / b.to({DOUBLE})", f"(a.to({DOUBLE}) * 1e-300).to(tl.float32)", "a * 1e-30"),
    *("tl.max(a, 0) + 0 * c", "tl.min(b, 0) + 0 * c", "tl.max(tl.where(c > 0, c, -0.0), 0) + 0 * c"),
    *("1 / tl.min(tl.where(c > 0, 0.0, -0.0), 0) + 0 * c", "tl.sum(c * 0 + i * 0.5, 0) + 0 * c"),
    *("tl.cumsum(i * 0.5, 0)", "tl.cumprod(1.0 + (i == 7), 0)", "tl.cumsum(i * 0.5, 0, reverse=True)"),
    *("tl.argmax(c, 0) + 0 * c", "tl.argmin(c, 0) + 0 * c", "tl.softmax(c, 0)"),
    *("tl.reduce(c, 0, larger) + 0 * c", "tl.associative_scan(c, 0, larger)"),
    "tl.dot((a * 0 == 0).to(tl.float32).reshape(32, 32), (i * 0.5).reshape(32, 32), input_precision='ieee')"
    ".reshape(1024)",
    "tl.trans(c.reshape(32, 32)).reshape(1024)",
    "tl.sum(c.reshape(32, 32)[:, :, None] * 0 + i.reshape(32, 32)[:, :, None], 0).reshape(32)[None, :]"
    ".broadcast_to(32, 32).reshape(1024)",
]
# of a and b in int32; d is odd and not -1, s a number of bits
OF_WHOLE_NUMBERS = [
    *(
        "a + b",
        "a - b",
        "a * b",
        "a // d",
        "a % d",
        "-7 // d",
        "a // -3",
        "a % -3",
        "a & b",
        "a | b",
        "a ^ b",
    ),
    *("a >> s", "a << s", "~a", "-a", "tl.abs(a // 2)", "tl.maximum(a, b)", "tl.minimum(a, b)", "max(a, 3)"),
    *(
        "a.to(tl.float32)",
        f"a.to({DOUBLE})",
        f"a.to({HALF}).to(tl.float32)",
        "a / b",
        "a * 0.1",
        "a.to(tl.int1)",
    ),
    *(
        "a.to(tl.int64) * b",
        "(a.to(tl.int64) * b).to(tl.int32)",
        "a.to(tl.int64) << s",
        "a.to(tl.int64) >> s",
    ),
    *("a.to(tl.int64) // d", "a.to(tl.int64) % d", "tl.abs(a.to(tl.int64))", "-a.to(tl.int64)"),
    *("a * 65536 * 65536", "a + 2147483647", "tl.cdiv(a, d)", "(a > 0) * b", "(a > 0) - b", "a - (b > 0)"),
    *(f"tl.where(a {sign} b, 1, 0)" for sign in ("<", "<=", ">", ">=", "==", "!=")),
    *("tl.where(a.to(tl.int64) < b, 1, 0)", "tl.where(a > 0.5, 1, 0)", "tl.where((a > b) == (b > 0), a, b)"),
    *("tl.cumsum(a, 0)", "tl.xor_sum(a ^ b, 0) + a", "tl.max(a, 0) + i", "tl.min(b, 0) + i"),
    *("tl.sum((a > b).to(tl.int32), 0) + i", "tl.argmax(a, 0) + i", "tl.argmin(b, 0) + i"),
    *("tl.reduce(a, 0, either) + i", "tl.associative_scan(a, 0, either)", "(a > b) & (b > 0) | (a == 3)"),
    *("(a > b) ^ (b > 0)", "tl.join(a, b).reshape(2048).reshape(1024, 2).split()[1]"),
]
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    7.3,
    -0.1,
    1e-40,
    -1e-40,
    1e-37,
    3e-39,
    3e38,
    float("inf"),
]
FLOATS += [-float("inf"), float("nan"), 65504.0, 65520.0, 70000.0, 1e-8, 6e-8, 16777217.0, 88.0, 89.0, -87.5]
FLOATS += [-90.0, -104.0, 0.3, 127.9, -127.0]
MODERATE = [x for x in FLOATS if 1e-30 < abs(x) < 1e5]
WHOLE_NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    -3,
    7,
    -7,
    16,
    31,
    2**31 - 1,
    -(2**31),
    65536,
    65537,
    -65536,
    100,
    -(2**31) + 1,
]
WHOLE_NUMBERS += [
    12345,
    -99999,
    4,
    5,
    6,
    255,
    1023,
    1 << 30,
    -(1 << 30),
    46341,
    -46341,
    33,
    64,
    2**24 + 1,
    999,
]
SIZE = 1024  # all pairs of 32 numbers

TEXT = """
import triton
import triton.language as tl


@triton.jit
def larger(p, q):
    return tl.maximum(p, q)


@triton.jit
def either(p, q):
    return p | q
"""
KERNEL = """

@triton.jit
def operation_{number}(x, y, z, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    d, s = {odd}, {bits}
    tl.store(out + i, ({expression}).to(tl.float64))
"""

Run = Callable[[Any, list[torch.Tensor]], np.ndarray]


def run_all(folder: Path, run: Run) -> dict[str, np.ndarray]:
    """Return what each expression gives, by its text.

    Args:
        folder: takes the module of kernels.
        run: launches a kernel on tensors, of which it writes the last, and returns that.
    """
    kernels, results = make_kernels(folder), {}
    for number, expression in enumerate([*OF_FLOATS, *OF_WHOLE_NUMBERS]):
        given = give_floats() if number < len(OF_FLOATS) else give_whole_numbers()
        kernel = getattr(kernels, f"operation_{number}")
        results[expression] = run(kernel, [*given, torch.zeros(SIZE, dtype=torch.float64)])
    return results


def make_kernels(folder: Path) -> ModuleType:
    """Write the kernels, which Triton reads from a file, and import them."""
    text = TEXT
    for number, expression in enumerate([*OF_FLOATS, *OF_WHOLE_NUMBERS]):
        odd, bits = ("c", "c") if number < len(OF_FLOATS) else ("tl.where(b == -1, 3, b | 1)", "b & 31")
        text += KERNEL.format(number=number, expression=expression, odd=odd, bits=bits)
    path = folder / "operations_as_kernels.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def give_floats() -> list[torch.Tensor]:
    """Return all pairs of FLOATS, and as many moderate ones."""
    x = torch.tensor(FLOATS, dtype=torch.float32)
    moderate = torch.tensor(MODERATE, dtype=torch.float32)
    return [x.repeat_interleave(len(x)), x.repeat(len(x)), moderate.repeat(SIZE)[:SIZE]]


def give_whole_numbers() -> list[torch.Tensor]:
    """Return all pairs of WHOLE_NUMBERS."""
    x = torch.tensor(WHOLE_NUMBERS, dtype=torch.int32)
    return [x.repeat_interleave(len(x)), x.repeat(len(x)), x.repeat(len(x))]


def find_differences(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return which expressions differ by more than their last digits or in the sign of 0, and where first."""
    found = {}
    for expression in one.keys() | other.keys():
        p, q = one[expression], other[expression]
        with np.errstate(all="ignore"):
            alike = (p == q) & (np.signbit(p) == np.signbit(q)) | (np.isnan(p) & np.isnan(q))
            last = _digits(expression) * np.maximum(np.abs(p), np.abs(q)) + _least(expression)
            alike |= ((p != 0) | (q != 0)) & (np.abs(p - q) <= last)
        if not alike.all():
            place = int(np.argmin(alike))
            found[expression] = f"{(~alike).sum()} of {SIZE}, at {place} {p[place]} and {q[place]}"
    return found


def _digits(expression: str) -> float:
    """Return the share of itself by which a number may differ."""
    return 2e-3 if HALF in expression else 4e-6


def _least(expression: str) -> float:
    """Return some times the distance of the numbers next to 0."""
    return 1.2e-7 if HALF in expression else 1e-44


def run_on_a_gpu(kernel: Any, tensors: list[torch.Tensor]) -> np.ndarray:
    """Launch a kernel of the compiler's."""
    tensors = [x.cuda() for x in tensors]
    kernel[(1,)](*tensors, SIZE)
    return np.asarray(tensors[-1].cpu())


def run_as_the_grader(kernel: Any, tensors: list[torch.Tensor]) -> np.ndarray:
    """Launch a kernel of the interpreter's."""
    from linattn_exercises.calls import Call, run_call
    from linattn_exercises.kernel_memory import plan

    outcome = run_call({"k": kernel}, Call("k", (plan((1,), (3,)), *tensors, SIZE)), watched=True)
    if "value" not in outcome:
        raise ValueError(f"{kernel.fn.__name__}: {outcome.get('text', outcome)}")
    return np.asarray(outcome["value"])


def main(path: str, by: str) -> None:
    """Write what a GPU makes of all, or what the grader does, and of which operations they are made."""
    if by == "gpu":
        np.savez(path, **run_all(Path(path).parent, run_on_a_gpu))  # type: ignore[arg-type]
        return
    from linattn_exercises import kernel_front

    kernel_front.remember()
    codes: list[str] = []
    refuse = kernel_front._refuse_foreign

    def note_and_refuse(code: str) -> None:
        codes.append(code)
        refuse(code)

    with patch.object(kernel_front, "_refuse_foreign", note_and_refuse):
        results = run_all(Path(path).parent, run_as_the_grader)
    seen = sorted({name for code in codes for name, _ in kernel_front.OPERATION.findall(code)})
    np.savez(path, __operations__=np.array(seen), **results)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(*sys.argv[1:])
