"""Launches of kernels: what is seen of their memory, what their text may be, and what is left behind."""

import contextlib
import itertools
import json
import os
import re
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton import cdiv
from triton.language import constexpr

from linattn_exercises import kernel_front, kernel_rules, kernel_texts, launches, sets
from linattn_exercises.calls import Call, run_call
from linattn_exercises.ch06_fast import check
from linattn_exercises.grading.sandbox import Limits, Sandbox
from linattn_exercises.kernel_memory import KeptMemory, Launch, Memory, plan
from linattn_exercises.kernel_orders import find_product
from linattn_exercises.kernel_rules import check_kernel
from linattn_exercises.launches import trace
from linattn_exercises.questions import PUBLIC_SEED
from tests.exercises.gradebook import read, write
from tests.exercises.notebooks import hand_in

kernel_front.remember()  # other tests launch kernels, which changes Triton's language
HALF = tl.constexpr(0.5)
WIDTH = tl.constexpr(16)
TILES_OF_TWO = tl.constexpr(2)


@triton.jit
def halve(x):
    return x * HALF


@triton.jit
def move(x, y, shift, n: tl.constexpr):
    """Store x, halved, at another place of y."""
    i = tl.program_id(0) * n + tl.arange(0, n)
    tl.store(y + i + shift, halve(tl.load(x + i)))


@triton.jit
def fetch(x, y, shift, n: tl.constexpr):
    """Store what stands at another place of x."""
    i = tl.program_id(0) * n + tl.arange(0, n)
    tl.store(y + i, tl.load(x + i + shift))


@triton.jit
def masked(x, y, n, WIDER: tl.constexpr):
    i = tl.arange(0, WIDER)
    tl.store(y + i, tl.load(x + i, mask=i < n, other=7.0), mask=i < n)


@triton.jit
def product(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    place = i[:, None] * n + i
    tl.store(y + place, tl.exp(tl.dot(tl.load(x + place), tl.load(x + place), input_precision="ieee")))
    tl.store(y + i, tl.log(tl.sum(tl.load(y + place), 0)))


@triton.jit
def add_atomically(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.atomic_add(y + i, tl.load(x + i))


# --- memory -------------------------------------------------------------------------------------------------


def remember(*sizes: int, **settings) -> Memory:
    """Return a memory of tensors in float32, a thousand bytes apart, named a, b and so on."""
    tensors = [torch.arange(float(n)) for n in sizes]
    return Memory(tensors, "abc"[: len(sizes)], [1000 * (n + 1) for n in range(len(sizes))], **settings)


def at(tensor: int, *entries: int, size: int = 4) -> np.ndarray:
    """Return the addresses of entries."""
    return 1000 * (tensor + 1) + size * np.array(entries, dtype=np.int64)


def use(memory: Memory, does: str, program: int, *entries: int) -> None:
    """Let a program read or write entries of the first tensor."""
    if does == "read":
        memory.load(program, at(0, *entries), 4)
    else:
        memory.store(program, at(0, *entries), 4, np.ones(len(entries), np.float32).tobytes())


def test_a_load_gathers_from_all_tensors_in_order():
    memory = remember(4, 3)
    places = np.concatenate([at(1, 2), at(0, 3, 1), at(1, 0), at(0, 3)])
    assert np.frombuffer(memory.load(0, places, 4), np.float32).tolist() == [2, 3, 1, 0, 3]
    memory.store(0, places[:2], 4, np.float32([8, 9]).tobytes())
    assert np.frombuffer(memory.load(0, places[:3], 4), np.float32).tolist() == [8, 9, 1]
    assert (memory.loads, memory.stores, memory.bytes_loaded, memory.bytes_stored) == (8, 2, 32, 8)


@pytest.mark.parametrize("does", ["read", "write"])
@pytest.mark.parametrize(
    ("entry", "says"),
    [(4, "1 behind the last entry of `a`"), (-2, "2 before the first entry of `a`")],
)
def test_what_lies_outside_is_named(does, entry, says):
    with pytest.raises(IndexError, match=f"{does}s 1 entries outside of its tensors, such as that {says}"):
        use(remember(4), does, 0, 2, entry)


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ("read", "read", ""),
        ("write", "read", "one reads entry 2 of `a`, which another one has written"),
        ("read", "write", "one writes entry 2 of `a`, which another one has read"),
        ("write", "write", "one writes entry 2 of `a`, which another one has written"),
    ],
)
def test_two_programs_may_meet_where_both_read(first, second, clash):
    memory = remember(4)
    use(memory, first, 0, 1, 2)
    use(memory, first, 0, 1, 2)
    use(memory, "read", 0, 1, 2)  # a program may read what it has written itself
    use(memory, second, 1, 3)
    if not clash:
        use(memory, second, 1, 2)
        return
    with pytest.raises(RuntimeError, match=clash):
        use(memory, second, 1, 2)


def test_a_reader_clashes_even_if_it_was_among_several():
    memory = remember(4)
    for program in (0, 1, 1):
        use(memory, "read", program, 2)
    with pytest.raises(RuntimeError, match="which another one has read"):
        use(memory, "write", 1, 2)


def test_what_is_only_read_is_not_written():
    memory = remember(4, 4, written=[1])
    memory.store(0, at(1, 0), 4, bytes(4))
    with pytest.raises(ValueError, match="writes to `a`, which is to be read only"):
        use(memory, "write", 0, 0)


@pytest.mark.parametrize("place", [at(0, 0, size=8), at(0, 0) + 2])
def test_entries_have_one_type(place):
    with pytest.raises(ValueError, match="reads `a` as numbers of another type"):
        remember(4).load(0, place, 8 if place[0] % 4 == 0 else 4)


# --- a launch -----------------------------------------------------------------------------------------------


def test_a_launch_reads_and_writes_the_tensors_that_are_given():
    x, y = torch.arange(32.0), torch.zeros(40)
    found = trace(move, (2,), x, y, 8, 16)
    assert torch.equal(y, torch.cat([torch.zeros(8), x / 2]))
    assert found == launches.Trace(2, bytes_loaded=128, bytes_stored=128, products=0, exponentials=0)


@pytest.mark.parametrize(
    ("kernel", "shift", "says"),
    [
        (fetch, 3, "reads 3 entries outside of its tensors, such as that 1 behind the last entry of `x`"),
        (fetch, -2, "reads 2 entries outside of its tensors, such as that 2 before the first entry of `x`"),
        (move, 3, "writes 3 entries outside of its tensors, such as that 1 behind the last entry of `y`"),
        (move, 2**20, "writes 16 entries outside of its tensors"),  # where memory is, but nobody's
    ],
)
def test_a_kernel_stays_within_its_tensors(kernel, shift, says):
    with pytest.raises(IndexError, match=says):
        trace(kernel, (1,), torch.zeros(16), torch.zeros(16), shift, 16)


@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize(("kernel", "shift"), [(move, 0), (move, 16), (fetch, 16), (fetch, -16)])
def test_a_race_is_found_in_any_order(kernel, shift, order):
    """Programs of one tensor: each has its own part, or reads or writes that of the next."""
    x = torch.zeros(64)
    memory = Memory([x], ["x"], [(place := launches.make_place(x.dtype, x.shape)).data_ptr()])
    part = place[16:]
    if not shift:
        launches.run(kernel, (2,), (part, part, shift, 16), memory, order)
        return
    with pytest.raises(RuntimeError, match="two programs meet"):
        launches.run(kernel, (2,), (part, part, shift, 16), memory, order)


def test_lanes_that_are_masked_out_are_free():
    y = torch.zeros(5)
    assert trace(masked, (1,), torch.ones(5), y, 5, 16).bytes_loaded == 20
    assert torch.equal(y, torch.ones(5))


def test_a_trace_counts_bytes_products_and_exponentials():
    found = trace(product, (1,), torch.zeros(16, 16), torch.zeros(16, 16), 16)
    assert found.bytes_loaded == 2 * 16 * 16 * 4  # of two equal loads the compiler makes one
    assert found.bytes_stored == (16 * 16 + 16) * 4
    assert (found.products, found.exponentials) == (16**3, 16 * 16 + 16)


def test_a_trace_takes_half_precision():
    x, y = torch.tensor([1.5, -3.0] * 8, dtype=torch.float16), torch.zeros(16, dtype=torch.float16)
    assert trace(fetch, (1,), x, y, 0, 16).bytes_loaded == 32
    assert torch.equal(y, x)


class Recorder:
    """Stand for a memory, and note the order of programs."""

    def __init__(self) -> None:
        self.programs: list[int] = []

    def load(self, program: int, addresses: np.ndarray, size: int) -> bytes:
        self.programs.append(program)
        return bytes(len(addresses) * size)

    def store(self, program: int, addresses: np.ndarray, size: int, values: bytes) -> None:
        pass


def test_the_order_of_programs_is_drawn_from_a_seed():
    orders = []
    for seed in (0, 1, 1, 2):
        recorder = Recorder()
        launches.run(move, (3, 1, 4), (torch.zeros(48), torch.zeros(48), 0, 16), recorder, 0, seed)
        orders.append(recorder.programs)
        assert sorted(recorder.programs) == list(range(12))
    assert orders[0] == list(range(12))
    assert orders[1] == orders[2]
    assert len({tuple(order) for order in orders}) == 3


def test_atomic_operations_are_refused():
    with pytest.raises(TypeError, match="an order that differs from run to run"):
        trace(add_atomically, (1,), torch.zeros(16), torch.zeros(16), 16)


def test_the_interpreter_works_as_before():
    """While a kernel is read, Triton's language is the compiler's."""
    x = torch.arange(16.0)
    for shift in (0, 1):
        with pytest.raises(IndexError) if shift else contextlib.nullcontext():
            trace(fetch, (1,), x, torch.zeros(16), shift, 16)
        y = torch.zeros(16)
        move[(1,)](x, y, 0, 16)
        assert torch.equal(y, x / 2)


# --- the text of a kernel -----------------------------------------------------------------------------------


@triton.jit
def by_torch(x, y, n: tl.constexpr):
    tl.store(y, torch.sum(x))


@triton.jit
def by_numpy_of_triton(x, y, n: tl.constexpr):
    tl.store(y, triton.runtime.interpreter.np.sum(x))


@triton.jit
def by_a_module_of_the_language(x, y, n: tl.constexpr):
    tl.store(y, tl.core.builtins.getattr(x, "handle"))


@triton.jit
def by_an_alias(x, y, n: tl.constexpr):
    find(tl, y)


@triton.jit
def find(lib, y):
    tl.store(y, lib.core.builtins.sum(y))


@triton.jit
def by_a_default(x, y, n: tl.constexpr, add=torch.sum):
    tl.store(y, add(x))


@triton.jit
def by_import(x, y, n: tl.constexpr):
    import torch

    tl.store(y, torch.sum(x))


@triton.jit
def by_handle(x, y, n: tl.constexpr):
    tl.store(y, x.handle)


@triton.jit
def by_format(x, y, n: tl.constexpr):
    tl.store(y, float("{.handle.data[0]}".format(x)))  # noqa: UP032


@triton.jit
def by_private_names(x, y, n: tl.constexpr):
    tl.store(y, x._type)


@triton.jit
def by_helper(x, y, n: tl.constexpr):
    by_torch(x, y, n)


@triton.jit
def by_chained_comparison(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i, 1.0, mask=2 <= i < 5)


@triton.jit
def by_break(x, y, n: tl.constexpr):
    for _ in range(n):
        break


@triton.jit
def by_list(x, y, n: tl.constexpr):
    tiles = [tl.load(x + i) for i in range(n)]
    for tile in tiles:
        tl.store(y, tile)


@triton.jit
def by_loop_over_tiles(x, y, n: tl.constexpr):
    for tile in (tl.load(x), tl.load(x + 1)):
        tl.store(y, tile)


def plain(x, y, n):
    y[0] = x.sum()


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (by_torch, "uses `torch"),
        (by_numpy_of_triton, "uses `triton.runtime"),
        (by_a_module_of_the_language, "uses `tl.core.builtins"),
        (by_an_alias, "uses `tl` by itself"),
        (by_a_default, "has a default of type"),
        (by_import, "does not compile: `import torch`"),
        (by_handle, "uses `.handle`"),
        (by_format, "uses `.format`"),
        (by_private_names, "uses `._type`"),
        (by_helper, "uses `torch"),
        (by_chained_comparison, "two comparisons in one"),
        (by_break, "does not compile: `break`"),
        (by_list, "does not compile: `[tl.load"),
        (by_loop_over_tiles, "a loop over something else than a range"),
        (plain, "is a function, expected a kernel: a function under `@triton.jit`"),
        (None, "is a NoneType, expected a kernel"),
    ],
)
def test_what_is_no_part_of_the_language_is_refused(kernel, says):
    with pytest.raises(TypeError) as caught:
        check_kernel(kernel)
    assert says in str(caught.value)


@triton.jit
def allowed(x, y, n, N: tl.constexpr = WIDTH, flag=None):
    """Use what a kernel may use: a helper, constants of the module, Python's numbers, Triton's functions."""
    i = tl.arange(0, N)
    size: tl.constexpr = N * 2 if WIDTH > 8 else N
    total = tl.zeros([N], tl.float32)
    for start in tl.range(0, min(n, 64), N):
        total += halve(tl.load(x + start + i, mask=start + i < n, other=-float("inf")))
    for _ in tl.static_range(2):
        total *= HALF
    done = 0
    while done < tl.cdiv(size, N):
        done += 1
    if flag is None and not done > 2:
        total = tl.where((i < 3) & (i > 0), total, tl.math.exp2(total)).to(tl.float32)
    tl.static_assert(N == 16)
    tl.store(y + i, total.to(y.dtype.element_ty))


def test_honest_kernels_run():
    y = torch.zeros(16)
    trace(allowed, (1,), torch.ones(16), y, 16, 16, None)
    assert y[:3].tolist() == pytest.approx([2**0.125, 0.125, 0.125])
    for kernel in (move, fetch, masked, product):
        check_kernel(kernel)


@triton.jit
def by_truth(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    total = tl.sum(tl.load(x + i), 0)
    if total > 0.0 and i < 3:
        tl.store(y, total)


@triton.jit
def empty(x, y, n: tl.constexpr):
    raise NotImplementedError


@triton.jit
def misspelt(x, y, n: tl.constexpr):
    halve(misspelled)


@triton.jit
def odd(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i, tl.load(x + i) + tl.arange(0, 8))


@triton.jit
def stay(p):
    return tl.sum(tl.load(p + 1), 0)


@triton.jit
def behind(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + n, stay(x + i))


@pytest.mark.parametrize(
    ("kernel", "error", "line", "says"),
    [
        (by_truth, "TypeError", "", "takes a tile as one truth value, in `if`, `and`, `or`"),
        (misspelt, "TypeError", "", "misspelled is not defined, in `halve(misspelled)`"),
        (odd, "TypeError", "", "16 and 8, in `tl.store(y + i, tl.load(x + i) + tl.arange(0, 8))`"),
        (behind, "IndexError", "return tl.sum(tl.load(p + 1), 0)", "reads 1 entries outside"),
        (empty, "NotImplementedError", "", ""),
        (fetch, "TypeError", "", "takes 4 arguments (x, y, shift, n), expected 3"),
    ],
)
def test_the_error_is_that_of_the_kernel_with_its_line(kernel, error, line, says):
    call = Call("kernel", (plan((1,), (1,)), torch.ones(16), torch.zeros(16), 16))
    outcome = run_call({"kernel": kernel}, call, watched=True)
    assert outcome["error"] == error
    assert outcome["line"] == line
    assert says in outcome["text"]


# --- a kernel that is made anew of its text -----------------------------------------------------------------


def described(kernel) -> list[dict]:
    """Return a kernel as it goes from process to process."""
    return json.loads(json.dumps(kernel_texts.describe_kernel(kernel)))


def test_a_kernel_made_anew_does_the_same():
    y = torch.zeros(16)
    trace(kernel_texts.build_kernel(described(allowed)), (1,), torch.ones(16), y, 16, 16, None)
    assert y[:3].tolist() == pytest.approx([2**0.125, 0.125, 0.125])


PLAIN: dict = {
    "text": "def f(x): tl.store(x, 1.0)",
    "names": {"tl": {"module": "triton.language"}},
    "defaults": [],
    "module": "m",
    "place": "f",
    "kinds": {},
    "noinline": None,
    "do_not_specialize": None,
}
BODY = "    tl.store(y + tl.arange(0, 16), tl.load(x + tl.arange(0, 16)))"


@pytest.mark.parametrize(
    "head",
    ["@{0}\ndef f(x, y):", "def f(x, y: {0}):", "def f(x, y) -> {0}:", "def f(x, y={0}):"],
)
def test_nothing_of_a_text_runs_when_it_is_made_anew(head, tmp_path):
    mark = tmp_path / "mark"
    text = head.format(f"open({str(mark)!r}, 'w')") + f"\n{BODY}"
    defaults = [3] if "=" in head else []
    kernel_texts.build_kernel([PLAIN | {"text": text, "defaults": defaults}])
    assert not mark.exists()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"text": "x = 1"}, "is not one function"),
        ({"text": "def f(x): pass\ndef g(x): pass"}, "is not one function"),
        ({"text": "def f(*x): tl.store(x[0], 1.0)"}, "has other arguments than Triton's functions"),
        ({"text": "def f(x): open('a')"}, "uses `open`"),
        ({"text": "def f(x): g('a')", "names": {"g": {"module": "os", "part": "system"}}}, "uses `os`"),
        ({"text": "def f(x): x.handle"}, "uses `.handle`"),
        ({"text": "def f(x):\n    (eval): 1\n    eval('1')"}, "names a type and no value"),
        ({"text": "def f(x): tl.target_info.is_cuda()"}, "uses `tl.target_info"),
        ({"text": "def f(x): tl.load(x, _semantic=f)"}, "gives an argument by the name _semantic"),
        ({"text": "def f(x, __ran__): tl.store(x, 1.0)"}, "uses the name `__ran__`"),
        ({"names": {"interpreter_semantic": {"module": "triton.language.core"}}}, "uses `interpreter_sem"),
        (
            {
                "text": "def f(x): exec('a')",
                "names": {"__builtins__": {"module": "triton.language.core"}},
            },
            "uses `__builtins__`",
        ),
        ({"names": {"g": {"module": "triton.language.core", "part": "__dict__"}}}, "uses `__dict__`"),
        ({"names": {"g": {"module": "triton.language.core", "part": 3}}}, "cannot be read"),
        (
            {
                "text": "def f(x): b.open('a')",
                "names": {"b": {"module": "triton.language.core", "part": "builtins"}},
            },
            "uses `b.open`",
        ),
        ({"defaults": [1]}, "has a default that is no number"),
        ({"do_not_specialize": [{}]}, "has options that are no names"),
        ({"names": {"tl": {"function": 7}}}, "cannot be read"),
        ({"text": "def f(x:"}, "cannot be read"),
        ({"text": "def f(x): pass" + " " * kernel_texts.MAX_CHARACTERS}, "is too long"),
    ],
)
def test_a_text_from_elsewhere_is_looked_at(changed, says):
    with pytest.raises(TypeError, match=re.escape(says)):
        kernel_texts.build_kernel([PLAIN | changed])


@pytest.mark.parametrize("name", ["eval", "inspect"])
def test_what_a_look_at_a_text_misses_is_not_there(monkeypatch, name):
    monkeypatch.setattr(kernel_rules, "check_kernel", lambda kernel: None)
    kernel = kernel_texts.build_kernel([PLAIN | {"text": f"def f(x): {name}.stack"}])
    with pytest.raises(TypeError, match=f"{name} is not defined"):
        trace(kernel, (1,), torch.ones(1))


def test_a_memory_is_for_one_launch():
    kept = KeptMemory(Launch((1,), (1,)), [torch.ones(16), torch.zeros(16), 3])
    kept.place([1000, 2000], ["x", "y"])
    with pytest.raises(RuntimeError, match="launched once"):
        kept.place([1000, 2000], ["x", "y"])


# --- in the sandbox -----------------------------------------------------------------------------------------

RIGHT = """
@triton.jit
def merge(most, total, s):
    new = tl.maximum(most, tl.max(s, 0))
    safe = tl.where(new == -float("inf"), 0.0, new)
    return new, total * tl.exp(most - safe) + tl.sum(tl.exp(s - safe), 0)

@triton.jit
def row_logsumexp(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most, total = tl.full((), -float("inf"), tl.float32), tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        i = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + i, mask=i < n_columns, other=-float("inf"))
        most, total = merge(most, total, s)
    tl.store(out + row, most + tl.log(total))
"""
HEAD = RIGHT[RIGHT.rindex("@triton.jit") : RIGHT.index("    row =")]
BODY = RIGHT[RIGHT.index("    row =") :]
LAST_LINE = "row_logsumexp = lambda x, out, *_: tl.store(out, tl.load(x))"
ANSWERS = {
    "right": (RIGHT, ""),
    "a docstring with code": (
        RIGHT.replace(BODY, f'    """As in\n\ndef row_logsumexp(x): return 0\n    """\n{BODY}'),
        "",
    ),
    "a function that calls another": (
        "@triton.jit\ndef find_most(most, s):\n    default = tl.max(s, 0)\n"
        "    return tl.maximum(most, default)\n"
        + RIGHT.replace("tl.maximum(most, tl.max(s, 0))", "find_most(most, s)"),
        "",
    ),
    "a kernel in a docstring": (
        f'{HEAD}    """\ndef row_logsumexp(x, out, n_columns, TILE):\n{BODY}    # """\n    pass',
        "leaves 1 of the 1 entries",
    ),
    "the last line of a docstring": (
        f'{HEAD.replace("def ", "def" + chr(9))}    """\n{LAST_LINE}  # """\n    pass',
        "leaves 1 of the 1 entries",
    ),
    "a name that the interpreter lends": (
        RIGHT.replace("tl.log(total)", "inspect.builtins.float(0)"),
        "name 'inspect' is not defined",
    ),
    "a function of the compiler": (RIGHT.replace("tl.log(total)", "tl.str_to_ty('fp32', 0)"), "str_to_ty"),
    "a class of the compiler": (
        RIGHT.replace("tl.log(total)", "tl.semantic.TritonSemantic.lang.builtins.float(0)"),
        "which is no part of Triton's language",
    ),
    "another branch for the interpreter": (
        RIGHT.replace("    row =", "    if isinstance(TILE, tl.tensor):\n        TILE = 16\n    row ="),
        "uses `isinstance`",
    ),
    "a text as a condition": (
        RIGHT.replace("    row =", "    if f'{TILE}' == '16':\n        TILE = 16\n    row ="),
        "puts a text together",
    ),
    "identity": (
        RIGHT.replace("    row =", "    if TILE is n_columns:\n        TILE = 16\n    row ="),
        "compares by `is`",
    ),
    "a change of Triton": (
        RIGHT.replace("    tl.store(", "    tl.float32.width = 3\n    tl.store("),
        "gives a value to `tl.float32.width`",
    ),
    "a wrong sum": (RIGHT.replace("most + tl.log", "tl.log"), "add the maximum to the logarithm"),
    "behind the end": (
        RIGHT.replace(', mask=i < n_columns, other=-float("inf")', ""),
        "raised IndexError in the line `s",
    ),
    "torch": (RIGHT.replace("tl.log(total)", "torch.log(total)"), "uses `torch"),
    "a function": (
        "def row_logsumexp(x, out, n_columns, TILE):\n    out[:] = x.logsumexp(-1)",
        "expected a kernel",
    ),
    "empty": (f"{HEAD}    raise NotImplementedError", "is not answered yet"),
}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox("process", Limits(cpu=10, wall=60), own_code=True) as started:
        yield started


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_in_cells_is_graded_as_it_is_checked(sandbox, name, tmp_path):
    source, says = ANSWERS[name]
    content = hand_in("ch06_fast", {"q2": source})
    cells = read(write(tmp_path / "a.ipynb", content)).select_cells("q2")
    graded = check.q2.judge(sandbox.run(cells, check.q2.prepare(PUBLIC_SEED).calls), PUBLIC_SEED)
    path = tmp_path / "answer.py"
    path.write_text(f"import torch, triton\nimport triton.language as tl\n{source}\n")
    answer = runpy.run_path(str(path))
    assert graded == check.q2.check(answer, PUBLIC_SEED)
    assert graded.right is not bool(says)
    assert says in graded.message


# --- what only the interpreter takes ------------------------------------------------------------------------


@triton.jit
def named_in_a_loop(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        last = tl.sum(tl.load(x + start + tl.arange(0, TILE)), 0)
        total += last
    tl.store(out, total + last)


@triton.jit
def changing_type(x, out, n_columns, TILE: tl.constexpr):
    total = 0
    for start in range(0, n_columns, TILE):
        total += tl.sum(tl.load(x + start + tl.arange(0, TILE)), 0)
    tl.store(out, total)


@triton.jit
def unrolled(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for start in tl.static_range(0, n_columns, TILE):
        total += tl.sum(tl.load(x + start + tl.arange(0, TILE)), 0)
    tl.store(out, total)


@triton.jit
def by_methods(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        total += halve(tl.load(x + start + tl.arange(0, TILE))).sum(0)
    tl.store(out, total)


@triton.jit
def by_shape(x, out, n_columns, TILE: tl.constexpr):
    tl.static_assert(TILE <= 64, f"too wide: {TILE}")
    two = (tl.load(x + tl.arange(0, TILE)), 2.0)
    tl.store(out, tl.sum(two[0], 0) * two[1] * two[0].shape[0] / triton.next_power_of_2(TILE))


@triton.jit
def picking(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x + tl.arange(0, TILE))[0])


@triton.jit
def take_last(tile):
    for i in range(0, 4):
        last = tile * i
    return last


@triton.jit
def by_function(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.sum(take_last(tl.load(x + tl.arange(0, TILE))), 0))


@triton.jit
def for_wide_tiles(x, out, n_columns, TILE: tl.constexpr):
    total = tl.sum(tl.load(x + tl.arange(0, TILE)), 0)
    if TILE > 16:
        for i in range(0, 4):
            last = i
        total += 0.0 * last
    tl.store(out, total)


@triton.jit
def without_nan(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    tile = tl.load(x + i, mask=i < 10)
    tl.store(out, tl.sum(tl.where(tile == tile, tile, 0.0), 0))


WIDTH = tl.constexpr(16)
TILES_OF_TWO = tl.constexpr(2)


@triton.jit
def told_by_a_condition(x, out, n_columns, TILE: tl.constexpr):
    if [16] == (16,):
        pass
    else:  # for the compiler both are tuples
        tl.store(out, 3.0)


@triton.jit
def told_in_an_expression(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, 1.0 if [16] == (16,) else 3.0)


@triton.jit
def told_by_what_is_left_out(x, out, n_columns, TILE: tl.constexpr):
    [16] == (16,) or tl.maximum(n_columns, 3) > 0


@triton.jit
def told_in_a_message(x, out, n_columns, TILE: tl.constexpr):
    tl.static_assert(TILE > 0, tl.store(out, 3.0))


@triton.jit
def told_in_a_format(x, out, n_columns, TILE: tl.constexpr):
    tl.static_print(f"{TILE:{(tl.store(out, 3.0), '')[1]}}")


@triton.jit
def add_by_a_list(a, b):
    return a if [16] == (16,) else a + b


@triton.jit
def told_in_a_reduction(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, TILE)), 0, add_by_a_list))


@triton.jit
def told_in_an_annotation(x, out, n_columns, TILE: tl.constexpr):
    done: 0 if [16] == (16,) else tl.store(out, 3.0) = 1  # type: ignore[valid-type]  # noqa: F841


@triton.jit
def told_in_a_dotted_annotation(x, out, n_columns, TILE: tl.constexpr):
    done: (tl if [16] == (16,) else tl.store(out, 3.0)).constexpr = 1  # type: ignore[valid-type]  # noqa: F841


@triton.jit
def __own__(x, out, n_columns, TILE: tl.constexpr):  # the grader keeps what it notes under such names
    if [16] == (16,):
        pass
    else:
        tl.store(out, 3.0)


@triton.jit
def put(p, v):
    tl.store(p, v)
    return v < 0.0


first_put = put


@triton.jit  # type: ignore[no-redef]
def put(p, v):
    tl.store(p, v + 1.0)
    return v < 0.0


@triton.jit
def hand_on(f, p, v):
    f(p, v)


@triton.jit
def never_put(f, n, p):
    return (n < 0) and f(p, -77.0)


@triton.jit
def by_a_joined_argument(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, 32.0)
    never_put(put, n_columns, out)


@triton.jit
def by_two_of_one_name(x, out, n_columns, TILE: tl.constexpr):
    if n_columns < 0:
        hand_on(first_put, out, 3.0)
    hand_on(put, out, 3.0)


@triton.jit
def put_by_a_text(p, v, mode: tl.constexpr):
    if mode == "[":
        tl.store(p, v - 77.0)
    else:
        tl.store(p, v)


@triton.jit
def by_texts_of_one_name(x, out, n_columns, TILE: tl.constexpr):
    if n_columns < 0:
        put_by_a_text(out, 3.0, "[")
    put_by_a_text(out, 3.0, "_")


@triton.jit
def halve_seven(c):
    return (-7 if c else -7) // 2 + 4  # noqa: RUF034


@triton.jit
def by_a_number_of_two_kinds(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, halve_seven(True) + halve_seven(n_columns > 0) + 0.0)


@triton.jit
def tell(p, v):
    tl.store(p, v)
    return v


@triton.jit
def by_a_named_argument(x, out, n_columns, TILE: tl.constexpr):
    tl.maximum(tell(out, -77.0), y=tell(out, 3.0))


@triton.jit
def with_named_loads(x, out, n_columns, TILE: tl.constexpr):
    both = tl.maximum(tl.load(x), y=tl.load(x + 1))
    tl.store(out, 16.0 * both + tl.maximum(16.0, y=tell(out, 3.0)))


@triton.jit
def by_max_of_nan(x, out, n_columns, TILE: tl.constexpr):
    nan = tl.load(x) * float("nan")
    tl.store(out, tl.where(max(nan, 32.0) == 32.0, 32.0, -77.0))


@triton.jit
def by_max_of_two_kinds(x, out, n_columns, TILE: tl.constexpr):
    large = max(n_columns - n_columns + 1, 0.5) * 65536 * 65536  # a float for a GPU, which does not overflow
    tl.store(out, tl.where(large > 1.0, 32.0, -77.0) + min(max(n_columns, 1), 3, 2) - 2.0)


@triton.jit
def by_the_interpreter_s_name(x, out, n_columns, TILE: tl.constexpr):
    interpreter_semantic = x
    tl.store(out, tl.load(interpreter_semantic))


@triton.jit
def add_in_a_loop(a, b):
    for _ in range(5):
        a += 0.2 * b
    return a


@triton.jit
def add_by_a_tile(a, b):
    return a + b + tl.sum(tl.zeros((16,), tl.float32), 0)


@triton.jit
def by_a_loop_in_a_reduction(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, TILE)), 0, add_in_a_loop))


@triton.jit
def by_a_tile_in_a_reduction(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, TILE)), 0, add_by_a_tile))


@triton.jit(noinline=True)
def add_by_a_tile_apart(a, b):
    return tl.max(tl.zeros((16,), tl.float32) + a, 0) + b


@triton.jit
def by_a_tile_apart(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, TILE)), 0, add_by_a_tile_apart))


@triton.jit(noinline=True)
def add_further_apart(a, b):
    return add_by_a_tile_apart(a, b)


@triton.jit
def by_a_tile_further_apart(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.max(tl.associative_scan(tl.load(x + tl.arange(0, TILE)), 0, add_further_apart), 0))


@triton.jit
def with_branches(x, out, n_columns, TILE: tl.constexpr):
    if n_columns > 100:
        return
    for i in range(2):
        if i > 0:
            tl.store(out, 32.0 if n_columns > 3 and TILE == 16 else 2.0)
        elif TILE > 64:
            tl.store(out, 1.0)
    while n_columns > 60:
        n_columns -= 1
    assert TILE > 0, f"no tile of {TILE}"
    print("columns", n_columns)


def run_once(kernel, width: int = 16, seed: int = 0) -> dict:
    """Return the outcome of a launch, as a question has it."""
    arguments = plan((1,), (1,), seed), torch.ones(64), torch.full((1,), float("nan")), 64, width
    return run_call({"kernel": kernel}, Call("kernel", arguments), watched=True)


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (named_in_a_loop, "last is not defined, in `tl.store(out, total + last)`"),
        (changing_type, "Loop-carried variable total has initial type int32"),
        (unrolled, "used as tl.static_range end value is not a constexpr"),
        (by_function, "last is not defined, in `return last`"),
    ],
)
def test_what_triton_does_not_compile_is_refused_though_the_interpreter_has_run(kernel, says):
    trace(by_methods, (1,), torch.ones(64), torch.empty(1), 64, 16)
    assert "is not compiled by Triton" in run_once(kernel)["text"]
    assert says in run_once(kernel)["text"]
    assert run_once(by_methods)["value"].item() == run_once(with_branches)["value"].item() == 32


def test_no_store_hides_in_a_type_or_behind_a_name_of_the_grader():
    says = "computes the type of a variable, expected the name of one"
    assert says in run_once(told_in_an_annotation)["text"]
    assert says in run_once(told_in_a_dotted_annotation)["text"]
    assert (
        "uses the name `__own__`, which Python or the interpreter keeps for itself"
        in run_once(__own__)["text"]
    )


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (by_the_interpreter_s_name, "uses the name `interpreter_semantic`"),
        (by_a_loop_in_a_reduction, "branches or loops in what `tl.reduce` or a scan combines by"),
        (by_a_loop_in_a_reduction, "`tl.where` and `tl.maximum`, in `a += 0.2 * b`"),
        (
            by_a_tile_in_a_reduction,
            "tiles or barriers in what `tl.reduce` or a scan combines by; it takes numbers",
        ),
        (
            by_a_tile_apart,
            "tiles or barriers in what `tl.reduce` or a scan combines by; it takes numbers, in `return tl",
        ),
        (
            by_a_tile_further_apart,
            "tiles or barriers in what `tl.reduce` or a scan combines by; it takes numbers",
        ),
    ],
)
def test_what_the_compiler_takes_for_something_else_is_refused(kernel, says):
    """Each stores in the interpreter what no GPU would store, or compiles for none."""
    assert says in run_once(kernel)["text"]


def test_a_forged_description_gives_no_local_name_a_value():
    text = "def f(x):\n    y = 1.0\n    tl.store(x, y)"
    with pytest.raises(TypeError, match="uses `y`, which is no part of Triton's language"):
        kernel_texts.build_kernel([PLAIN | {"text": text, "names": PLAIN["names"] | {"y": {"constant": 5}}}])


@pytest.mark.parametrize("kernel", [by_max_of_nan, by_max_of_two_kinds])
def test_min_and_max_are_those_of_a_gpu(kernel):
    assert run_once(kernel)["value"].item() == 32


def test_loads_may_stand_in_arguments_of_both_kinds():
    assert run_once(with_named_loads)["value"].item() == 32


@pytest.mark.parametrize("name", ["constexpr", "__builtins__", "__name__"])
def test_a_kernel_takes_no_name_that_it_is_built_with(name):
    with pytest.raises(TypeError, match="a name that is taken"):
        kernel_texts.build_kernel([PLAIN | {"text": f"def {name}(x): return"}])


def test_threads_launch_in_turn():
    """Where a kernel is read, Triton's language is exchanged for the whole process."""
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(run_once, [by_methods, with_branches] * 8))
    assert [outcome["value"].item() for outcome in outcomes] == [32] * 16


def test_a_kernel_is_read_anew_for_other_constants():
    assert run_once(for_wide_tiles)["value"].item() == 16
    assert "last is not defined" in run_once(for_wide_tiles, 32)["text"]


def test_shapes_and_tuples_have_entries_and_tiles_have_none():
    assert run_once(by_shape)["value"].item() == 32
    assert "picks entries of a tile" in run_once(picking)["text"]


@triton.jit
def split_by_nothing(x, out, n_columns, TILE: tl.constexpr):
    half = tl.split(tl.load(x + tl.arange(0, TILE)))
    tl.store(out, tl.sum(half, 0))


@triton.jit
def of_a_computed_axis(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.program_id(tl.program_id(0)))


@triton.jit
def reduced_by_a_reduction(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, TILE)), 0, tl.max))


@triton.jit
def reduced_by_python(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, TILE)), 0, max))


@triton.jit
def scanned_by_a_text(x, out, n_columns, TILE: tl.constexpr):
    y = tl.associative_scan(tl.load(x + tl.arange(0, TILE)), 0, "add")
    tl.store(out, tl.sum(y, 0))


@triton.jit
def loaded_from_a_number(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(1))


@triton.jit
def cast_to_a_text(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x).to("fp32"))


@triton.jit
def flipped_along_none(x, out, n_columns, TILE: tl.constexpr):
    tile = tl.zeros((TILE, TILE), tl.float32)
    tl.store(out, tl.max(tl.flip(tile)))


@triton.jit
def summed_along_too_much(x, out, n_columns, TILE: tl.constexpr):
    y = tl.cumsum(tl.load(x + tl.arange(0, TILE)), 5)
    tl.store(out, tl.max(y))


@triton.jit
def with_dots_in_an_index(x, out, n_columns, TILE: tl.constexpr):
    y = tl.load(x + tl.arange(0, TILE))[..., None]
    tl.store(out, tl.max(y))


CONSTANT = "takes what a program computes where it needs a constant, such as an axis, in `tl.store(out, tl."


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (split_by_nothing, "`tl.split` takes tiles whose last axis is of length 2, in `half = tl.split("),
        (of_a_computed_axis, f"{CONSTANT}program_id(tl.program_id(0)))`"),
        (reduced_by_a_reduction, f"{CONSTANT}reduce(tl.load(x + tl.arange(0, TILE)), 0, tl.max))`"),
        (reduced_by_python, "its compiler cannot take `tl.store(out, tl.reduce("),
        (scanned_by_a_text, "its compiler cannot take `y = tl.associative_scan("),
        (loaded_from_a_number, "its compiler cannot take `tl.store(out, tl.load(1))` ('constexpr_type'"),
        (cast_to_a_text, "its compiler cannot take `tl.store(out, tl.load(x).to('fp32'))` ('str' object"),
        (flipped_along_none, "its compiler cannot take `tl.store(out, tl.max(tl.flip(tile)))` ("),
        (summed_along_too_much, "-1 <= axis < 1, in `y = tl.cumsum(tl.load(x + tl.arange(0, TILE)), 5)`"),
        (with_dots_in_an_index, "has `...` in an index; write `:` for each axis, as in `x[:, :, None]`, in"),
    ],
)
def test_what_the_compiler_does_not_explain_is_said_with_the_line_of_the_kernel(kernel, says):
    assert says in f"{run_once(kernel)['text']}."


def test_an_expression_that_is_nested_too_deep_is_refused(tmp_path):
    path = tmp_path / "deep.py"
    signs = "-" * 900
    path.write_text(f"import triton\n\n@triton.jit\ndef deep(x, out, n_columns, TILE):\n    y = {signs}1\n")
    deep = runpy.run_path(str(path))["deep"]
    assert "has hundreds of signs or brackets in one expression" in run_once(deep)["text"]


def test_what_a_mask_leaves_out_is_not_nan_alone():
    found = list(run_with_chances(without_nan))
    assert 10 in found  # a GPU may leave 0, too
    assert any(value != 10 for value in found)


REPLACED = """
import sys, torch, triton.language as tl

def nothing(*arguments, **options):
    return None

for name, module in list(sys.modules.items()):
    if name.rpartition(".")[2] in ("launches", "kernel_memory", "kernel_front", "kernel_rules", "watch"):
        for key, one in list(vars(module).items()):
            if callable(one) and key in ("run", "launch_kept", "check_kernel", "read", "compare", "Memory"):
                setattr(module, key, nothing)
tl.log2 = tl.log
"""


def test_what_an_answer_replaces_in_its_process_has_no_part(sandbox, tmp_path):
    """Its logarithm to base 2 becomes a natural one there, and nothing is looked at; the text says base 2."""
    for source, says in (
        (RIGHT, ""),
        (RIGHT.replace("tl.log(", "tl.log2("), "at [0] got"),
        (RIGHT.replace("tl.log(total)", "torch.log(total)"), "has no attribute 'log'"),
    ):
        content = hand_in("ch06_fast", {"q2": REPLACED + source})
        cells = read(write(tmp_path / "a.ipynb", content)).select_cells("q2")
        graded = check.q2.judge(sandbox.run(cells, check.q2.prepare(PUBLIC_SEED).calls), PUBLIC_SEED)
        assert graded.right is not bool(says), graded.message
        assert says in graded.message


# --- what a GPU does in no promised order -------------------------------------------------------------------

NEGATIVE = -1.0


@triton.jit
def add_pairs(a, x, b, y):
    return a * b, b * x + y


@triton.jit
def take_one(a, x, b, y):
    return a, x + 1.0


@triton.jit
def scanned(x, out, n_columns, TILE: tl.constexpr):
    tile = tl.load(x + tl.arange(0, TILE))
    _, last = tl.associative_scan((tile * 0.5, tile), 0, add_pairs)
    tl.store(out, tl.sum(tl.where(tl.arange(0, TILE) == TILE - 1, last, 0.0), 0))


@triton.jit
def counted_by_ones(x, out, n_columns, TILE: tl.constexpr):
    tile = tl.load(x + tl.arange(0, TILE))
    _, total = tl.reduce((tile, tile), 0, take_one)
    tl.store(out, total)


@triton.jit
def take_larger(a, x, b, y):
    return tl.maximum(a, b), tl.where(a > b, x, y)


@triton.jit
def in_two_loops(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns - TILE, TILE):
        part = total * 1.0
        total = part + tl.sum(tl.load(x + start + tl.arange(0, TILE)), 0)
    for start in range(n_columns - TILE, n_columns, 1):
        part = tl.exp(total * 0.0)  # which has the same name in the compiler's code
        total += part + tl.load(x + start) - 1.0
    tl.store(out, total)


@triton.jit
def with_a_loop_of_no_turn(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for start in range(n_columns, 0):
        part = total * tl.load(x + start)
        total = part + 1.0
    for start in range(0, n_columns):
        part = tl.exp(tl.load(x + start) * 0.0)
        total = part + total
    tl.store(out, total)


@triton.jit
def with_an_odd_print(x, out, n_columns, TILE: tl.constexpr):
    tl.device_print("a loc(x", n_columns)
    tl.store(out, 64.0)


@triton.jit
def named_as_an_option(x, out, n_columns, TILE: tl.constexpr):
    allow_reorder = tl.arange(0, TILE) * 1.0
    rows = tl.reshape(allow_reorder, (TILE // 2, 2))
    tl.store(out, tl.sum(tl.where(tl.arange(0, 2) == 1, tl.sum(rows, 0), 0.0), 0))


@triton.jit
def sorted_and_turned(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    tile = tl.flip(tl.sort(tl.where(i == 5, 64.0, i - 20.0), 0), 0)
    tl.store(out, tl.sum(tl.where(i == 0, tile, 0.0), 0))


@triton.jit
def in_rows_of_any_order(x, out, n_columns, TILE: tl.constexpr):
    rows = tl.sum(tl.reshape(tl.arange(0, 1024), (8, 128), can_reorder=True), 1)
    tl.store(out, tl.max(rows, 0) - tl.min(rows, 0) + 0.0)


@triton.jit
def of_a_sine(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.sum(tl.sin(tl.arange(0, TILE) * 0.1) - tl.sin(tl.arange(0, TILE) * 0.1 + 0.0), 0))


@triton.jit
def in_small_parts(x, out, n_columns, TILE: tl.constexpr):
    one = tl.zeros((TILE, TILE), tl.float32) + tl.load(x)
    made = tl.dot(one * 2.0**-120 * 1.0000001, one * 2.0**120, input_precision="tf32x3")
    tl.store(out, tl.max(tl.max(made, 1), 0) - TILE)  # what is left of the factor is too small for a part


@triton.jit
def by_a_descriptor(x, out, n_columns, TILE: tl.constexpr):
    block = tl.make_tensor_descriptor(x, [n_columns], [1], [TILE])
    tl.store(out, tl.sum(block.load([0]), 0))


@triton.jit
def promised_of_a_loop(x, out, n_columns, TILE: tl.constexpr):
    place = n_columns
    for _ in range(0, n_columns - 63):
        place += 1
    tl.store(out, tl.load(x + tl.multiple_of(place, 16) - 60))


@triton.jit
def promised_of_a_branch(x, out, n_columns, TILE: tl.constexpr):
    place = n_columns
    if n_columns > 3:
        place = tl.program_id(0) + 4
    tl.store(out, tl.load(x + tl.multiple_of(place, 16)))


@triton.jit
def with_an_empty_branch(x, out, n_columns, TILE: tl.constexpr):
    if n_columns > 3:
        pass
    else:
        tl.store(out, 3.0)
    if n_columns > TILE:
        tl.store(out, 64.0)


@triton.jit
def with_a_barrier(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, TILE)), 0))
    tl.debug_barrier()
    tl.store(out, tl.load(out) * 4.0)


@triton.jit
def in_pairs(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)[:, None] + TILE * tl.arange(0, TILE)
    _, place = tl.reduce((i * 1.0, i * 0.0 + tl.where(i == TILE * TILE - 1, 120.0, 0.0)), None, take_larger)
    tl.store(out, place)


@triton.jit
def choose_left(a, b):
    return a


@triton.jit
def choose_right(a, b):
    return b


@triton.jit
def first_of_a_reduction(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, TILE)) + tl.arange(0, TILE), 0, choose_left))


@triton.jit
def last_of_a_reduction(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, TILE)) + tl.arange(0, TILE), 0, choose_right))


@triton.jit
def by_largest(x, out, n_columns, TILE: tl.constexpr):
    tile = tl.load(x + tl.arange(0, TILE)) * tl.arange(0, TILE)
    tl.store(out, tl.max(tile, 0) + tl.argmax(tile, 0))


@triton.jit
def viewed(x, out, n_columns, TILE: tl.constexpr):
    tile = (tl.load(x + tl.arange(0, TILE)) * tl.arange(0, TILE)).to(tl.float32)
    square = tl.reshape(tile, [4, TILE // 4], can_reorder=True)
    tl.store(out, tl.sum(tl.sum(tl.where(tl.arange(0, 4)[:, None] == 0, square, 0.0), 1), 0))


@triton.jit
def promised(x, out, n_columns, TILE: tl.constexpr):
    i = tl.max_contiguous(tl.multiple_of(n_columns // 21 + tl.arange(0, TILE), TILE), TILE)
    tl.store(out, tl.sum(tl.load(x + i), 0))


@triton.jit
def promised_places(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.sum(tl.load(tl.multiple_of(x + 1 + tl.arange(0, TILE), 64)), 0))


@triton.jit
def promised_equal(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    tl.store(out, tl.sum(tl.load(x + i, mask=tl.max_constancy(i < 13, 8), other=0.0), 0))


@triton.jit
def rounded_down(x, out, n_columns, TILE: tl.constexpr):
    at, step = 0, 3  # two numbers at once, which the interpreter leaves Python's
    for _ in range(0, n_columns, TILE):
        at -= step
        tl.store(out, at // TILE + 8)


@triton.jit
def rounded_in_place(x, out, n_columns, TILE: tl.constexpr):
    at, step = 0, 3
    for _ in range(0, n_columns, TILE):
        at -= step
        at %= TILE
        tl.store(out, at)


@triton.jit
def too_wide(x, out, n_columns, TILE: tl.constexpr):
    big, other = 70_000, 1
    for _ in range(0, n_columns, TILE):
        big += other
    big *= big
    tl.store(out, big)


@triton.jit
def behind_its_loop(x, out, n_columns, TILE: tl.constexpr):
    start = 0
    for start in range(0, n_columns, TILE):
        tl.store(out, tl.load(x + start))
    tl.store(out, tl.load(x + start))


@triton.jit
def behind_an_inner_loop(x, out, n_columns, TILE: tl.constexpr):
    for start in range(0, n_columns, TILE):
        for start in tl.range(0, 2):
            tl.store(out, tl.load(x + start))
        tl.store(out, tl.load(x + start))


@triton.jit
def printing_a_number(x, out, n_columns, TILE: tl.constexpr):
    print(n_columns)


@triton.jit
def checked_along_no_axis(x, out, n_columns, TILE: tl.constexpr):
    block = tl.make_block_ptr(x, (n_columns,), (1,), (0,), (TILE,), (0,))
    tl.store(out, tl.sum(tl.load(block, boundary_check=(1,)), 0))


@triton.jit(noinline=True)
def find_positive(a):
    if a > 0:
        return a


@triton.jit
def off_the_end_of_a_function(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x), mask=find_positive(-tl.load(x)) > -40000)


@triton.jit
def leaving_by_nothing(x, out, n_columns, TILE: tl.constexpr):
    for start in range(0, n_columns, TILE):
        tl.store(out, tl.load(x + start))
    if start > 40000:
        return
    tl.store(out, 1.0)


@triton.jit
def combine_off_the_end(a, b):
    if a > b:
        return a


@triton.jit
def reduced_off_the_end(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, TILE)), 0, combine_off_the_end))


@triton.jit
def gathered_from_the_end(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    tl.store(out, tl.sum(tl.gather(tl.load(x + i), i - 1, 0), 0))


@triton.jit
def added_comparisons(x, out, n_columns, TILE: tl.constexpr):
    for start in range(0, n_columns, TILE):
        if (start < TILE) + (start >= 0) > 0:
            tl.store(out, tl.load(x + start))


@triton.jit
def dividing_the_count(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for start in range(-24, 0, TILE):  # -24 and -8
        total += start // TILE
    tl.store(out, total)


@triton.jit
def wrapping(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        total += start * 65536 * 65536 // 65536 // 65536
    tl.store(out, total)


@triton.jit
def less_than_nothing(x, out, n_columns, TILE: tl.constexpr):
    nothing = tl.full((), float("nan"), tl.float32)
    tl.store(out, tl.maximum(tl.minimum(tl.load(x) * 5.0, nothing), nothing))


@triton.jit
def cast(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, (tl.load(x) * 300.0).to(tl.int8))


@triton.jit
def cast_beyond(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, (tl.load(x) * 3e9).to(tl.int32))


@triton.jit
def hand_back(c, mask):
    if c:
        return mask


@triton.jit
def masked_by_nothing_at_times(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, 32.0, mask=hand_back(n_columns < 0, n_columns < 0))


@triton.jit
def in_any_case(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, 32.0)
    assert n_columns > 0, tl.store(out, -77.0)


@triton.jit
def counting_truths(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for _ in range(n_columns > 0, 3):  # a truth value with a sign is -1
        total += 1.0
    tl.store(out, total)


@triton.jit
def in_64_bits(x, out, n_columns: tl.int64, TILE: tl.constexpr):
    tl.store(out, n_columns * 65536 * 65536 * 1.0)


@triton.jit
def give_one(c):
    if c:
        return 1
    return 1.0


@triton.jit
def returning_two_kinds(x, out, n_columns, TILE: tl.constexpr):
    large = (n_columns * 0 + 70000) * give_one(n_columns < 0)  # a whole number, which overflows
    tl.store(out, tl.where((large * large).to(tl.float32) > 4.8e9, 1.0, 0.0))


@triton.jit
def with_a_sign_in_a_tuple(x, out, n_columns, TILE: tl.constexpr):
    pair = (n_columns, n_columns)
    for _ in range(2):
        pair = (pair[0], (n_columns - n_columns - 1).to(tl.uint32))
    tl.store(out, pair[1].to(tl.float32))


@triton.jit
def assuming(x, out, n_columns, TILE: tl.constexpr):
    tl.assume(n_columns < 0)
    tl.store(out, 32.0)


@triton.jit
def cast_nothing(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, (tl.load(x) * float("nan")).to(tl.int64))


@triton.jit
def shifted(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, (n_columns >> 40) + 1.0)


@triton.jit
def counted_outside(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.sum(tl.histogram(tl.arange(0, TILE) + 1, TILE), 0))


@triton.jit
def in_bfloat16(x, out, n_columns, TILE: tl.constexpr):
    below = (-1.0 - tl.arange(0, TILE)).to(tl.bfloat16) < tl.zeros((TILE,), tl.bfloat16)
    tl.store(out, tl.sum(tl.where(below, 1.0, 0.0), 0))


@triton.jit
def specialized(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for start in tl.range(0, n_columns, TILE, warp_specialize=True):
        total += tl.sum(tl.load(x + start + tl.arange(0, TILE)), 0)
    tl.store(out, total)


@triton.jit
def add_larger(m, a, n, b):
    if m > n:
        low, total = n, a + b * tl.exp(n - m)
    else:
        low, total = m, b + a * tl.exp(m - n)
    return tl.maximum(m, n) + 0.0 * low, total


@triton.jit
def branching(x, out, n_columns, TILE: tl.constexpr):
    y = tl.load(x + tl.arange(0, TILE))
    tl.store(out, tl.reduce((y, y), 0, add_larger)[1])


@triton.jit
def counted_outside_of_the_language(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, triton.cdiv(n_columns, TILE) + 0.0)


@triton.jit
def divided_in_float16(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.fdiv(tl.load(x).to(tl.float16), tl.load(x + 1).to(tl.float16)))


@triton.jit
def kept_in_two_ways(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x, cache_modifier=".ca", eviction_policy="evict_first"))


@triton.jit
def choose_kind(n):
    return tl.float16 if n > TILES_OF_TWO else tl.float32


@triton.jit
def rounded_by_a_choice(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x).to(choose_kind(TILE)))


@triton.jit
def held_between(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.clamp(tl.load(x) * float("nan"), -1.0, 1.0))


@triton.jit
def with_a_rest(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x) * -1e30 % 0.7)


@triton.jit
def multiplied_high(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.umulhi(-n_columns, n_columns) + 0.0)


@triton.jit
def shifted_without_sign(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, (-n_columns >> tl.full((), 3, tl.uint32)) + 0.0)


@triton.jit
def compared_without_sign(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.where(-n_columns < n_columns.to(tl.uint32), 1.0, 0.0))


@triton.jit
def taken_for_bits(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x).to(tl.int32, bitcast=True) + 0.0)


@triton.jit
def placed_among_nothing(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    tl.store(out, tl.argmax(tl.where(i == 3, float("nan"), i * 1.0), 0) + 0.0)


@triton.jit
def two_names(x, out, n_columns, TILE: tl.constexpr):
    now = tl.load(x)
    last = now
    for _ in range(0, n_columns, TILE):
        last = now
        now += 1.0
    tl.store(out, last)


@triton.jit
def two_numbers(x, out, n_columns, TILE: tl.constexpr):
    now = tl.load(x)
    last = now + 0
    for _ in range(0, n_columns, TILE):
        last = now
        now += 1.0
    tl.store(out, last)


@triton.jit
def without_sign(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.abs(n_columns * 0 - 2147483647 - 1) % 16 + 0.0)


@triton.jit
def divided_beyond(x, out, n_columns, TILE: tl.constexpr):
    least = n_columns * 0 - 2147483647 - 1
    tl.store(out, least // (n_columns * 0 - 1) + 0.0)


@triton.jit
def known_for_certain(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.where(~(n_columns >= 0 or True), -1.0, 1.0))


@triton.jit
def counted_beyond(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for _ in range(2147483640, 2147483647 - n_columns * 0, 5):
        total += 1.0
    tl.store(out, total)


@triton.jit
def advanced_beyond(x, out, n_columns, TILE: tl.constexpr):
    block = tl.make_block_ptr(x, (64,), (1,), (2147483647,), (TILE,), (0,))
    block = tl.advance(tl.advance(block, (2147483647,)), (2,))
    tl.store(out, tl.sum(tl.load(block, boundary_check=(0,), padding_option="zero"), 0))


@triton.jit
def shifted_truths(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, ((n_columns > 0) << (n_columns < 0)) * 1.0)


@triton.jit
def first_address(p, q):
    return p


@triton.jit
def reduced_addresses(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(tl.reduce(x + tl.zeros((TILE,), tl.int32), 0, first_address)))


@triton.jit
def counted_truths(x, out, n_columns, TILE: tl.constexpr):
    if tl.sum(tl.arange(0, TILE) < n_columns, 0) > 0:
        tl.store(out, 1.0)


@triton.jit
def divided_by_nothing(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, n_columns // (n_columns - n_columns) + 0.0)


@triton.jit
def fold(x, SIZE: tl.constexpr):
    whole = x
    if SIZE > 1:
        whole = fold(tl.sum(tl.reshape(x, (SIZE // 2, 2)), 1), SIZE // 2)
    return whole


ONE_OF_ALL = tl.constexpr((1,))


@triton.jit
def calling_itself(x, out, n_columns, TILE: tl.constexpr):
    WIDE: constexpr = 4 * TILE
    total = fold(tl.load(x + tl.arange(0, WIDE)), WIDE)
    tl.store(out + tl.arange(0, 1), tl.reshape(total, ONE_OF_ALL))


@triton.jit
def choose_larger(m, a, n, b):
    return max(m, n), a if m > n else b


@triton.jit
def reduced_as_numbers(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    most, place = tl.reduce((i * tl.load(x + i), i + 49.0), 0, choose_larger)
    tl.store(out, place + 0.0 * most)


@triton.jit
def returning(x, out, n_columns, TILE: tl.constexpr):
    total = tl.sum(tl.load(x + tl.arange(0, TILE)), 0)
    tl.store(out, total)
    return total


@triton.jit
def declared_constexpr(x: tl.constexpr, out, n_columns, TILE: tl.constexpr):
    tl.static_assert(x.value.sum() == 0, f"{x.value.max()}")
    tl.store(out, 1.0)


@triton.jit
def declared_a_number(x: tl.float32, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x))


@triton.jit
def declared_short(x, out, n_columns: "i8", TILE: tl.constexpr):
    tl.store(out, tl.load(x + n_columns - 1))


@triton.jit
def declared_constant(x, out: tl.const, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x))


@triton.jit
def declared_rightly(
    x: tl.pointer_type(tl.float32),  # type: ignore
    out: "*fp32",  # type: ignore
    n_columns: tl.int32,
    TILE: tl.constexpr,
):
    tl.store(out, tl.load(x) * n_columns)


@triton.jit(noinline=True)
def sum_apart(tile):
    return tl.sum(tile, 0)


@triton.jit
def calling(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, sum_apart(tl.load(x + tl.arange(0, TILE))))


@triton.jit
def masked_by_numbers(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    tl.store(out, tl.sum(tl.load(x + i, mask=(i < n_columns).to(tl.int32), other=0.0), 0))


@triton.jit
def counting_without_sign(x, out, n_columns, TILE: tl.constexpr):
    below = tl.zeros((), tl.float32)
    for start in range(0, n_columns.to(tl.uint32), TILE):
        if start - TILE < 0:
            below += 1.0
    tl.store(out, below)


@triton.jit
def counting_in_bytes(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for j in range(tl.full((), 0, tl.int8), n_columns.to(tl.int8), tl.full((), 16, tl.int8)):
        total += j * TILE * 16
    tl.store(out, total)


@triton.jit
def with_nothing_read(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x, mask=n_columns < 0, other=0.0) + 0.25)


@triton.jit
def largest_of_constants(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, max(-7, -9) // 2 + 0.0)


@triton.jit
def added_in_halves(x, out, n_columns, TILE: tl.constexpr):
    large = tl.where(tl.arange(0, TILE) == 0, 2048.0, 1.0).to(tl.float16)
    tl.store(out, tl.sum(large, 0).to(tl.float32))


@triton.jit
def rounded_twice(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, (tl.zeros((), tl.float16) + 1.00048828218131).to(tl.float32))


@triton.jit
def rounded_once(x, out, n_columns, TILE: tl.constexpr):
    y = tl.load(x) + 0.000244140625
    tl.store(out, tl.fma(y, y, -1.00048828125) * 16777216.0)


@triton.jit
def signed_zeros(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    zeros = tl.where(i == 3, 1.0, -1.0) * 0.0
    above = 1.0 / tl.maximum(zeros, zeros * -1.0) > 0
    below = 1.0 / tl.minimum(zeros, zeros * -1.0) < 0
    all_above = tl.where(1.0 / tl.max(zeros, 0) > 0, 1.0, 0.0)
    all_below = tl.where(1.0 / tl.min(zeros, 0) < 0, 1.0, 0.0)
    both = tl.min(above.to(tl.int32), 0) + tl.min(below.to(tl.int32), 0)
    tl.store(out, both + all_above + all_below)


@triton.jit
def smallest_numbers(x, out, n_columns, TILE: tl.constexpr):
    y = tl.load(x) * 1e-20 * 1e-20
    tl.store(out, tl.ceil(y) + tl.sqrt(y) + tl.exp2(y * 0.0 - 127.0) + tl.floor(-y))


@triton.jit
def overflowing_sum(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.sum(tl.where(tl.arange(0, TILE) < 3, 1 << 30, 0), 0) + 0.0)


@triton.jit
def two_truths(x, out, n_columns, TILE: tl.constexpr):
    small, large = TILE < 8, TILE >= 8
    tl.store(out, tl.where(~small, 1.0, 0.0) + tl.where(~large, 1.0, 0.0))


@triton.jit
def is_positive(n):
    if n > 0:  # noqa: SIM103
        return True
    return False


@triton.jit
def describe_sign(n):
    if n > 0:
        return True, 1
    return False, 2


@triton.jit
def told_the_truth(x, out, n_columns, TILE: tl.constexpr):
    result = 1.0
    if ~is_positive(n_columns):
        result = 2.0
    if ~(True if n_columns > 0 else False):  # noqa: SIM210
        result += 4.0
    if ~describe_sign(n_columns)[0]:
        result += 8.0
    tl.store(out, result)


@triton.jit
def beyond_a_float(x, out, n_columns, TILE: tl.constexpr):
    big, huge = 1e30, 1e20
    large: tl.float32 = big
    large *= huge
    tl.store(out, large / big / huge)


EIGHT = tl.constexpr(8.0)


@triton.jit
def with_a_constant_first(x, out, n_columns, TILE: tl.constexpr):
    four: tl.constexpr = tl.constexpr(4.0)
    scale, two = EIGHT, 2.0
    total = EIGHT * tl.sum(tl.load(x + tl.arange(0, TILE)), 0) / scale * four / two / 2.0
    for i in tl.static_range(0, triton.cdiv(TILE, 16)):
        total += 48.0 * (i + 1)
    tl.store(out, total * TILE.value / TILE)


@triton.jit
def rounded_at_times(x, out, n_columns, TILE: tl.constexpr):
    kind = tl.float16
    if n_columns > 0:
        kind = tl.float32
    tl.store(out, (tl.load(x) / 3.0).to(kind))


@triton.jit
def counting_again(x, out, n_columns, TILE: tl.constexpr):
    for i in tl.static_range(2):
        tl.store(out, i * 1.0)
    if n_columns > 0:
        for i in tl.static_range(3):
            tl.store(out, i * 2.0)
    tl.store(out, tl.load(x) * i)


@triton.jit
def with_truths_of_numbers(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        live, i = start < n_columns, start + tl.arange(0, TILE)
        total += tl.sum(tl.load(x + i, mask=live & (i < n_columns), other=0.0), 0)
    tl.store(out, total, mask=n_columns > 0)


@triton.jit
def either(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    some = ((i >= 0) & (n_columns > 0)) + (i >= 0)
    tl.store(out, tl.sum(tl.where(some, tl.load(x + i), 0.0), 0))


def make_first():
    @triton.jit
    def pick(x):
        return x * 8.0

    return pick


def make_second():
    @triton.jit
    def pick(x):
        return x * 4.0 * cdiv(32, 16)

    return pick


FIRST, SECOND = make_first(), make_second()


@triton.jit
def with_two_of_a_name(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, SECOND(FIRST(tl.load(x))))


PRECISE = tl.constexpr("ieee")


@triton.jit
def multiply(a, b, precision: tl.constexpr = "ieee"):
    return tl.dot(a, b, input_precision=precision)


@triton.jit
def with_texts(x, out, n_columns, TILE: tl.constexpr):
    policy: tl.constexpr = "evict_first" if TILE > 8 else "evict_last"
    i = tl.arange(0, TILE)
    a = tl.load(x + 0 * i[:, None] + i, eviction_policy=policy)
    total = (
        multiply(a, a) + multiply(a, a, "ieee") + multiply(a, a, precision=PRECISE) + multiply(a, a, PRECISE)
    )
    tl.store(out, tl.max(tl.max(total, 0), 0))


@triton.jit
def behind_a_static_range(x, out, n_columns, TILE: tl.constexpr):
    for i in tl.static_range(3):
        tl.store(out, i * 1.0)
    for start in range(0, n_columns, TILE):
        tl.store(out, start + TILE + 0.0 * i)


@triton.jit(noinline=True)
def take_second(a, b):
    return b


@triton.jit
def handing_nothing_on(x, out, n_columns, TILE: tl.constexpr):
    found = find_positive(-tl.load(x))
    for n in range(0, n_columns):
        if n_columns < 0:
            found = take_second(found, found)
        found = take_second(found, tl.where(n < n_columns, 64.0, found))
    tl.store(out, found)


@triton.jit
def counting_down(x, out, n_columns, TILE: tl.constexpr):
    for start in range(n_columns - TILE, -1, tl.minimum(n_columns, 0) - TILE):
        tl.store(out, tl.load(x + start))


@triton.jit
def one_or_more(x, out, n_columns, TILE: tl.constexpr):
    for start in range(0, n_columns or 1, TILE):
        tl.store(out, tl.load(x + start))


@triton.jit
def store_three(out):
    tl.store(out, 3.0)
    return True


@triton.jit
def helped_behind_and(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, 1.0)
    never = n_columns < 0 and store_three(out)  # noqa: F841


@triton.jit
def pick(a, b, first: tl.constexpr):
    if first:
        return a
    else:
        return b


@triton.jit
def told_by_a_value(x, out, n_columns, TILE: tl.constexpr):
    total = pick(tl.sum(tl.load(x + tl.arange(0, TILE)), 0), 0.0, True)
    total = pick(0.0, total, False)
    tl.store(out, pick(total, 0.0, [16] == (16,)))


@triton.jit
def told_by_a_text(x, out, n_columns, TILE: tl.constexpr):
    for start in range(0, n_columns * ("%s" % WIDTH != "16"), TILE):  # noqa: UP031
        tl.store(out, tl.load(x + start))


@triton.jit
def make_number(form: tl.constexpr = "%s"):
    return form % WIDTH == "16"


@triton.jit
def told_by_a_default(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, make_number())


@triton.jit
def by_a_method(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, TILE)).exp(), 0))


_HALF = tl.constexpr(0.5)


@triton.jit
def _load(place, precise: tl.constexpr = False):
    return tl.load(place, eviction_policy="evict_first") * _HALF


@triton.jit
def with_private_names(x, out, n_columns, TILE: tl.constexpr):
    _total = tl.zeros((), tl.float32)
    for _ in range(0, n_columns, TILE):
        _total += tl.sum(_load(x + _ + tl.arange(0, TILE)), 0)
    tl.store(out, 2 * _total)


constant = tl.constexpr


@triton.jit
def add_up(x, WIDE: constant):  # type: ignore[valid-type]
    return tl.sum(tl.load(x + tl.arange(0, WIDE)), 0)


@triton.jit
def with_quoted_constants(x, out, n_columns, TILE: "tl.constexpr"):
    tl.store(out, add_up(x, 4 * TILE))


@triton.jit
def dividing(x, out, n_columns, TILE: tl.constexpr):
    """Divide what is not negative, or known before."""
    total, left = tl.zeros((), tl.float32), 0
    for start in range(-n_columns, 0, TILE):
        left += -(start // TILE) % 5 + (-7 // 2 + 4)
        left %= 3
        total += tl.sum(tl.load(x + n_columns + start + tl.arange(0, TILE)), 0)
    for back in range(n_columns - TILE, -1, -TILE):
        total += 0.0 * tl.load(x + back // TILE)
    tl.store(out, total + 0.0 * left)


@triton.jit
def with_conditions(x, out, n_columns, TILE: tl.constexpr):
    two: tl.constexpr = 2
    wide = TILE > 4 and two > 1
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        if two and not (start < 0 or start >= n_columns):
            total += tl.sum(tl.load(x + start + tl.arange(0, TILE)), 0)
    if wide and tl.maximum(total, 0.0) >= 0:
        tl.store(out, total)


@triton.jit
def to_a_fixed_end(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for start in range(0, 128, TILE):
        i = start + tl.arange(0, TILE)
        total += tl.sum(tl.load(x + i, mask=i < n_columns, other=0.0), 0)
    tl.store(out, total)


@triton.jit
def to_the_end(x, out, n_columns, TILE: tl.constexpr):
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        total += tl.sum(tl.load(x + start + tl.arange(0, TILE)), 0)
    tl.store(out, total)


@triton.jit
def added_truths(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    tl.store(out, tl.sum(tl.where((i < 3) + (i < 5), tl.load(x + i), 0.0), 0))


@triton.jit
def by_a_number(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, TILE)), 0) * NEGATIVE)


@triton.jit
def joined_to_a_sum(x, out, n_columns, TILE: tl.constexpr):
    y = tl.arange(0, TILE) * 0.1
    tl.store(out, tl.sum(tl.abs(y * 1.1 - y * 1.1), 0))


@triton.jit
def in_two_halves(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, TILE)) * 0.1 + tl.arange(0, TILE) * 0.3, 0))


@triton.jit
def quotient_again(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x) / 3.0 - tl.div_rn(tl.load(x), 3.0))


@triton.jit
def absorbed(x, out, n_columns, TILE: tl.constexpr):
    ones = tl.zeros((TILE, TILE), tl.float32) + tl.load(x)
    made = tl.dot(ones, ones, tl.zeros((TILE, TILE), tl.float32) + 1e8, input_precision="ieee")
    tl.store(out, tl.max(tl.max(made, 1), 0))


@triton.jit
def absorbed_in_a_scan(x, out, n_columns, TILE: tl.constexpr):
    sums = tl.cumsum(tl.where(tl.arange(0, TILE) == 0, 1e8, 3.0), 0)
    tl.store(out, tl.max(sums, 0))


@triton.jit
def of_a_masked_load(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x, mask=n_columns < 0))


@triton.jit
def rounding_alike(x, out, n_columns, TILE: tl.constexpr):
    y = tl.exp(tl.load(x + tl.arange(0, TILE)) * 0.1)
    tl.store(out, tl.sum(tl.where((y == tl.max(y, 0)) & (tl.exp(y * 0.0) == 1.0), 1.0, 0.0), 0))


@triton.jit
def quotients_in_sums(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    tl.store(out, tl.sum(3.0 * i / 3.0 + 1.0, 0) + 6.0 / (3.0 * tl.load(x)))


@pytest.mark.parametrize(
    ("kernel", "value"),
    [
        (scanned, sum(0.5**n for n in range(16))),
        (by_largest, 30.0),
        (in_pairs, 120.0),
        (quotients_in_sums, 138.0),
    ],
)
def test_what_is_right_in_any_order_is_right(kernel, value):
    assert [*run_with_chances(kernel)] == pytest.approx([value] * 24)


@pytest.mark.parametrize(
    ("kernel", "value"),
    [
        (counted_by_ones, 16.0),
        (viewed, 0.0 + 1 + 2 + 3),
        (first_of_a_reduction, 1.0),
        (last_of_a_reduction, 16.0),
    ],
)
def test_what_is_right_in_one_order_is_not_in_all(kernel, value):
    assert any(found != value for found in run_with_chances(kernel))


def run_with_chances(kernel):
    """Yield what a kernel gives with one chance and another."""
    for seed in range(24):
        yield run_once(kernel, seed=seed)["value"].item()


@triton.jit
def part_of_itself(x, out, n_columns, TILE: tl.constexpr):
    i = 3.0 + tl.arange(0, TILE)
    tl.store(out, tl.sum(tl.floor(i / i), 0))


@triton.jit
def half_of_a_whole(x, out, n_columns, TILE: tl.constexpr):
    i = 2.0 * tl.arange(0, TILE)
    tl.store(out, tl.sum(i / 2.0, 0))


@triton.jit(noinline=True)
def store_five(out, text: tl.constexpr):
    tl.store(out, 5.0)


@triton.jit
def named_a_kernel(x, out, n_columns, TILE: tl.constexpr):
    if tl.program_id(0) < 0:
        store_five(out, "is public ")
    tl.store(out, tl.load(x) + 1)


@triton.jit(noinline=True)
def take_first(a, b, text: tl.constexpr):
    return a


@triton.jit
def named_like_arguments(x, out, n_columns, TILE: tl.constexpr):
    one = tl.load(x)
    tl.store(out, take_first(one + 1, one + 4, "(%b: f32, %a: f32)"))


@triton.jit
def named_like_code(x, out, n_columns, TILE: tl.constexpr):
    one = tl.load(x)
    tl.device_print('i8 ) loc("tt.reduce"( bf16 {', one)
    tl.store(out, take_first(one + 1, one, 'a(b i8 loc("tt.load"( {'))


@triton.jit
def take(a, text: tl.constexpr):
    return a


@triton.jit
def take__fp32_c_sq_a(a, text: tl.constexpr):
    return a + 5


@triton.jit
def with_one_name_for_two(x, out, n_columns, TILE: tl.constexpr):
    one = tl.load(x)
    two = take(one + 1, "a__fp32_c_sq_z")  # for Triton both calls are of take__fp32_c_sq_a__fp32_c_sq_z
    tl.store(out, two * 0 + take__fp32_c_sq_a(one + 1, "z"))


@triton.jit
def unrolled_by_two(x, out, n_columns, TILE: tl.constexpr):
    total = 0.0
    for n in tl.range(0, n_columns, loop_unroll_factor=2):
        total += tl.load(x + n)
    tl.store(out, total)


NUMBERS = tl.constexpr((1.0, 2.0))


@triton.jit
def text_0(x, out, n_columns, TILE: tl.constexpr):
    if tl.program_id(0) < 0:
        store_five(out, "a b")
    tl.store(out, tl.load(x) + 1)


@triton.jit
def with_numbers_from_a_tuple(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x) * NUMBERS[1])


@triton.jit
def turned_around(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    turned = tl.flip(tl.load(x + i, mask=i > 0, other=0.0), 0)
    tl.store(out, tl.sum(tl.where(i < TILE - 1, turned, 0.0), 0) - TILE + 3)


@pytest.mark.parametrize(
    ("kernel", "value"),
    [
        (named_a_kernel, 2.0),
        (named_like_arguments, 2.0),
        (named_like_code, 2.0),
        (with_one_name_for_two, 2.0),
        (unrolled_by_two, 64.0),
        (text_0, 2.0),
        (with_numbers_from_a_tuple, 2.0),
        (turned_around, 2.0),
    ],
)
def test_texts_of_a_kernel_are_not_read_as_code(kernel, value):
    assert run_once(kernel)["value"].item() == value


@triton.jit
def joined_through_a_move(x, out, n_columns, TILE: tl.constexpr):
    a = tl.load(x) * 0.1
    b = tl.broadcast_to(
        tl.reshape(tl.expand_dims(a + tl.zeros([TILE], tl.float32), 0), [TILE])[:, None], [TILE, 2]
    )
    product = tl.trans(tl.broadcast_to((b * 0.7)[:, :, None], [TILE, 2, 2]), (1, 0, 2))
    rounded = tl.max(tl.where(tl.arange(0, TILE) < n_columns, a * 0.7, 0.0), 0)
    tl.store(out, tl.max(tl.max(tl.max(product - rounded, 0), 0), 0))


@triton.jit
def joined_after_a_split(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    a = tl.load(x + i) * 0.1
    left, right = tl.split(tl.join(a * 0.7, i.to(tl.float32)))
    rounded = tl.max(tl.where(i < n_columns, a * 0.7, 0.0), 0)
    tl.store(out, tl.max(left - rounded, 0) + 0 * tl.max(right, 0))


@triton.jit
def joined_in_a_sum(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, 2)
    a = tl.load(x) * 0.1
    rounded = tl.max(tl.where(i < n_columns, a * 0.7, 0.0), 0)
    tl.store(out, tl.sum(tl.where(i == 0, a, rounded) * tl.where(i == 0, 0.7, -1.0), 0))


@triton.jit
def joined_in_a_scan(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, 2)
    a = tl.load(x) * 0.1
    rounded = tl.max(tl.where(i < n_columns, a * 0.7, 0.0), 0)
    sums = tl.cumsum(tl.where(i == 0, a, rounded) * tl.where(i == 0, 0.7, -1.0), 0)
    tl.store(out, tl.sum(tl.where(i == 1, sums, 0.0), 0))


@triton.jit
def of_a_large_exponential(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.floor(tl.exp(tl.load(x) * 84.3) * 1e-30))


@triton.jit
def multiplied_in_one_order(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, 4)
    tl.store(out, tl.reduce(tl.where(i < 2, 1.5, 2.0), 0, multiply_two) + tl.sum(tl.load(x + i) * 0.5, 0))


@triton.jit
def multiply_two(a, b):
    return a * b


def test_products_are_moved_and_multiplied_as_numbers():
    assert set(run_with_chances(multiplied_in_one_order)) == {11.0}


@triton.jit
def nothing_in_its_bits(x, out, n_columns, TILE: tl.constexpr):
    infinite = tl.load(x) / 0.0
    bits = (infinite - infinite).to(tl.int32, bitcast=True)
    tl.store(out, tl.where(bits < 0, 1.0, 2.0))


@triton.jit
def whole_of_itself(x, out, n_columns, TILE: tl.constexpr):
    i = 240.0 + tl.arange(0, TILE)
    tl.store(out, tl.sum(tl.ceil(i / i), 0))


@triton.jit
def root_of_a_square(x, out, n_columns, TILE: tl.constexpr):
    i = 3.0 + tl.arange(0, TILE)
    tl.store(out, tl.sum(tl.ceil(tl.sqrt(i * i) - i), 0))


@triton.jit
def fused(x, out, n_columns, TILE: tl.constexpr):
    one = tl.load(x)
    a = one + 1.1920928955078125e-07
    b = (one - 1.1920928955078125e-07) * 5.9604644775390625e-08  # a * b is a hair below half a digit of a
    tl.store(out, tl.fma(a, b, a) - a)


@triton.jit
def fused_in_a_sum(x, out, n_columns, TILE: tl.constexpr):
    one = tl.load(x)
    a = one + 1.1920928955078125e-07
    b = (one - 1.1920928955078125e-07) * 5.9604644775390625e-08
    tl.store(out, a * b + a - a)


@triton.jit
def error_of_a_product(x, out, n_columns, TILE: tl.constexpr):
    a = tl.load(x).to(tl.float64) + 1e-9
    product = a * a
    left = tl.fma(a, a, -product)
    tl.store(out, tl.fma(a, a, -product - left) + (left != 0).to(tl.float64))


@triton.jit
def infinite_in_a_sum(x, out, n_columns, TILE: tl.constexpr):
    i = 1.0 + tl.arange(0, 8)
    infinite = tl.where(i == 3.0, float("inf"), tl.load(x) / 3)
    tl.store(out, tl.sum(infinite * i, 0))


@triton.jit
def infinite_before_others(x, out, n_columns, TILE: tl.constexpr):
    i = 1.0 + tl.arange(0, 8)
    infinite = tl.where(i == 1.0, 3e38, tl.load(x) / 3)
    tl.store(out, tl.max(tl.cumsum(infinite * (i + 0.3), 0), 0))


@triton.jit
def infinite_and_fused(x, out, n_columns, TILE: tl.constexpr):
    infinite = tl.load(x).to(tl.float64) / 0.0
    tl.store(out, tl.fma(infinite, infinite, infinite))


@triton.jit
def sum_before_its_products(x, out, n_columns, TILE: tl.constexpr):
    i, one = tl.arange(0, 16)[None, :], tl.load(x)
    large = tl.where(i == 0, 1e8, tl.where(i == 1, -1e8, 0.0)) * one + tl.zeros((16, 16), tl.float32)
    ones = tl.full((16, 16), 1.0, tl.float32)
    tl.store(out, tl.max(tl.max(tl.dot(large, ones, ones, input_precision="ieee"), 0), 0))


@triton.jit
def digits_of_nothing(x, out, n_columns, TILE: tl.constexpr):
    infinite = tl.load(x) / 0.0
    tl.store(out, ((infinite - infinite).to(tl.int32, bitcast=True) & 1).to(tl.float32))


@triton.jit
def alike_each_time(x, out, n_columns, TILE: tl.constexpr):
    number = tl.load(x) * 0.37
    low, high = tl.exp(number), tl.exp(number)
    for n in range(30):
        again = tl.exp(number + 0.0 * n) + tl.sum(number * tl.arange(1, 17) + 0.0 * n, 0) * 0.0
        low, high = min(low, again), max(high, again)
    tl.store(out, tl.where(low == high, 1.0, 0.0))


@triton.jit
def alike_where_left_out(x, out, n_columns, TILE: tl.constexpr):
    zeros = 0
    for n in range(15):
        zeros += (tl.load(x, mask=n_columns < -n) == 0.0).to(tl.int32)
    tl.store(out, tl.where(zeros == 15, 1.0, 0.0))


@triton.jit
def alike_at_its_place(x, out, n_columns, TILE: tl.constexpr):
    a = tl.load(x) * 1.2345678
    alike = n_columns > 0
    for n in range(30):
        b = a + 0.0 * n
        alike &= (a * a - 1.5241576 == b * b - 1.5241576) == (n < 0)
    tl.store(out, tl.where(alike, 1.0, 0.0))


@triton.jit
def alike_as_powers_of_2(x, out, n_columns, TILE: tl.constexpr):
    number = (tl.arange(0, 64) * 0.0137 + 0.21) * tl.load(x)
    differ = tl.exp(number) != tl.exp2(number * 1.4426950408889634)
    tl.store(out, 1.0 - tl.max(differ.to(tl.int32), 0))


@triton.jit
def alike_but_for_the_point(x, out, n_columns, TILE: tl.constexpr):
    a, b = (tl.arange(0, 64) * 0.0137 + 0.21) * tl.load(x), tl.arange(0, 64) * 0.0071 + 1.13
    differ = (-(a / b) != (0.0 - a) / b) | (a / b * 8 != a * 8 / b)
    tl.store(out, 1.0 - tl.max(differ.to(tl.int32), 0))


@triton.jit
def sum_of_nothing(x, out, n_columns, TILE: tl.constexpr):
    ones = tl.full((16, 16), 1.0, tl.float32) * tl.load(x)
    made = tl.dot(ones, ones, ones * float("nan"), input_precision="tf32x3")
    tl.store(out, tl.where(tl.max((made == made).to(tl.int32)) == 0, 1.0, 0.0))


@triton.jit
def negative_zero(x, out, n_columns, TILE: tl.constexpr):
    zero = tl.load(x) * 0.0 * -1.0
    fused = tl.fma(zero, tl.load(x), zero).to(tl.int32, bitcast=True)
    joined = tl.where(tl.arange(0, 16) < 1, zero, 0.1) * 1.3 + zero
    low = tl.min(joined.to(tl.int32, bitcast=True), 0)
    tl.store(out, tl.where((fused < 0) & (low < 0), 1.0, 0.0))


@triton.jit
def exact_in_float64(x, out, n_columns, TILE: tl.constexpr):
    one = tl.load(x).to(tl.float64)
    i = 3.0 + tl.arange(0, TILE)
    tl.store(out, tl.sum(tl.abs(i * one / i - 1.0) + tl.abs(tl.sqrt(i * i * one) - i), 0) + 1.0)


@triton.jit
def larger_after_all(a, b):
    tl.debug_barrier()
    return tl.maximum(a, b)


@triton.jit
def waiting_in_a_reduction(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, TILE)), 0, larger_after_all))


@triton.jit
def left_out(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x, mask=n_columns < 0))


@triton.jit
def taken_apart(x, out, n_columns, TILE: tl.constexpr):
    a, b = tl.split(tl.load(x + tl.arange(0, 2)) + tl.arange(0, 2))
    tl.store(out, a + b)


@pytest.mark.parametrize("kernel", [nothing_in_its_bits, digits_of_nothing])
def test_the_bits_of_nan_are_refused(kernel):
    assert "takes the bits of NaN" in run_once(kernel)["text"]


def test_no_barrier_stands_where_threads_may_part():
    assert "has tiles or barriers in what `tl.reduce`" in run_once(waiting_in_a_reduction)["text"]


def test_chance_depends_on_what_no_kernel_sees_and_is_the_same_again():
    found, again = ([str(one) for one in run_with_chances(left_out)] for _ in range(2))
    assert len(set(found)) > 1
    assert found == again


def test_a_tile_of_one_entry_is_a_number():
    assert run_once(taken_apart)["value"].item() == 3.0


@triton.jit
def by_one_inverse(x, out, n_columns, TILE: tl.constexpr):
    a, b = (2 * tl.arange(0, 1024) + 8193).to(tl.float32), 3.0 + 128.0 * tl.load(x)
    above, below = ((a / b > tl.div_rn(a, b)).to(tl.int32), (a / b < tl.div_rn(a, b)).to(tl.int32))
    tl.store(out, ((tl.max(above, 0) == 0) | (tl.max(below, 0) == 0)).to(tl.float32))


def test_a_gpu_is_followed_where_it_leaves_nothing_open():
    for kernel in (sum_of_nothing, negative_zero, exact_in_float64, by_one_inverse):
        assert set(run_with_chances(kernel)) == {1.0}


@pytest.mark.parametrize(
    "kernel",
    [
        alike_each_time,
        alike_where_left_out,
        alike_at_its_place,
        alike_as_powers_of_2,
        alike_but_for_the_point,
    ],
)
def test_what_is_alike_is_decided_alike_in_some_launches(kernel):
    assert set(run_with_chances(kernel)) == {0.0, 1.0}


@pytest.mark.parametrize("scale", [1.0, 1e100, 1e-100])
def test_what_rounding_takes_from_a_product_of_float64_is_exact(scale):
    a, b = np.random.default_rng(0).uniform(1, 2, (2, 100)) * scale
    rounded, left = find_product(a, b)
    exact = [Fraction(x) * Fraction(y) - Fraction(z) for x, y, z in zip(a, b, rounded, strict=True)]
    assert [float(x) for x in left] == [float(x) for x in exact]


def test_no_address_tells_where_another_tensor_lies():
    tensors = [launches.make_place(torch.float32, (64,)) for _ in range(20)]
    places = [x.data_ptr() for x in tensors]
    assert len({b - a for a, b in itertools.pairwise(places)}) > 15
    assert not any(place % launches.ALIGNED for place in places)


@triton.jit
def infinite_quotient(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, float("inf") * tl.load(x) / 3.0 + 1.0)


def test_what_is_infinite_stays_so_in_a_sum():
    for kernel in (infinite_in_a_sum, infinite_before_others, infinite_and_fused, infinite_quotient):
        assert set(run_with_chances(kernel)) == {float("inf")}


@triton.jit
def bits_of_an_address(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x.to(tl.pi32_t)).to(tl.float32))


def test_a_product_that_is_added_is_rounded_once():
    assert set(run_with_chances(fused)) == {0.0}
    assert set(run_with_chances(fused_in_a_sum)) == {0.0, 2**-23}
    assert set(run_with_chances(error_of_a_product)) == {1.0}


@triton.jit
def take_larger_early(a, b):
    if a > b:
        return a
    return b


@triton.jit(noinline=True)
def take_larger_apart(a, b):
    for _ in range(2):
        if a < b:
            a = b
    return a


@triton.jit
def reduced_early(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    tl.store(out, tl.reduce(tl.load(x + i) * ((5 * i) % TILE), 0, take_larger_early))


@triton.jit
def reduced_apart(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    tl.store(out, tl.reduce(tl.load(x + i) * ((5 * i) % TILE), 0, take_larger_apart))


@triton.jit
def scanned_early(x, out, n_columns, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    most = tl.associative_scan(tl.load(x + i) * ((5 * i) % TILE), 0, take_larger_early)
    tl.store(out, tl.max(tl.where(i == TILE - 1, most, 0.0), 0))


@pytest.mark.parametrize("kernel", [reduced_early, reduced_apart, scanned_early])
def test_what_combines_may_return_early(kernel):
    assert set(run_with_chances(kernel)) == {15.0}


@triton.jit
def cast_to_the_end(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, (tl.load(x) * 9223372036854775808.0).to(tl.int64).to(tl.float32))


@triton.jit(debug=True)
def with_debug(x, out, n_columns, TILE: tl.constexpr):
    tl.device_assert(n_columns < 0, "never")
    tl.store(out, tl.load(x))


@triton.jit
def late_quotient(x, out, n_columns, TILE: tl.constexpr):
    a, b = tl.load(x) * 0.1, tl.load(x) * 1.3
    tl.store(out, a / b + (0 - a) / b)


@pytest.mark.parametrize(
    "kernel",
    [
        part_of_itself,
        joined_to_a_sum,
        in_two_halves,
        quotient_again,
        absorbed,
        absorbed_in_a_scan,
        added_in_halves,
        in_rows_of_any_order,
        of_a_sine,
        of_a_masked_load,
        sum_before_its_products,
        whole_of_itself,
        root_of_a_square,
        joined_through_a_move,
        joined_after_a_split,
        joined_in_a_sum,
        joined_in_a_scan,
        late_quotient,
        of_a_large_exponential,
    ],
)
def test_the_last_digits_are_left_to_chance(kernel):
    assert len(set(map(str, run_with_chances(kernel)))) > 1


def test_equal_numbers_round_alike_and_exact_ones_stay():
    assert set(run_with_chances(rounding_alike)) == {16.0}
    assert set(run_with_chances(half_of_a_whole)) == {120.0}


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (promised, "promises something of numbers, as `tl.multiple_of`"),
        (promised_places, "promises something of numbers, as `tl.multiple_of`"),
        (promised_equal, "promises something of numbers, as `tl.multiple_of`"),
        (added_truths, "has a sum of truth values (write `|` or `&`)"),
        (by_a_number, "write `NEGATIVE = tl.constexpr(-1.0)`"),
        (returning, "returns a value, for which a GPU has no place: `return total`"),
        (declared_a_number, "`x` is declared as fp32, which Triton takes it for, and it is *fp32"),
        (declared_constexpr, "`x` is declared as constexpr, and it is a tensor"),
        (declared_short, "`n_columns` is declared as i8"),
        (declared_constant, "Cannot store to a constant pointer, in `tl.store(out, tl.load(x))`"),
        (calling, "Function sum_apart is marked noinline, but was called with non-scalar"),
        (masked_by_numbers, "a mask, for one, has truth values such as `i < n`"),
        (rounded_by_a_choice, "'dtype' object has no attribute 'type'"),
        (held_between, "has the operation `tt.clampf`"),
        (with_a_rest, "has the operation `arith.remf`"),
        (multiplied_high, "has the operation `tt.mulhiui`"),
        (shifted_without_sign, "has numbers without a sign"),
        (compared_without_sign, "has numbers without a sign"),
        (by_a_descriptor, "makes a tensor descriptor, for which a launch must lend memory"),
        (promised_of_a_loop, "promises something of numbers, as `tl.multiple_of`"),
        (promised_of_a_branch, "promises something of numbers, as `tl.multiple_of`"),
        (placed_among_nothing, "asks in which place the largest of numbers and NaN is"),
        (divided_by_nothing, "divides a whole number by 0"),
        (divided_beyond, "divides the least whole number by -1"),
        (counted_beyond, "counts to 2,147,483,650 in a loop, which is no int32"),
        (shifted_truths, "shifts numbers of 1 bits"),
        (reduced_addresses, "has a reduction or a scan of addresses"),
        (counted_truths, "(a sum of truth values is one; before it write `.to(tl.int32)`)"),
        (either, "has a sum of truth values (write `|` or `&`)"),
        (behind_its_loop, "has no value there: in Triton a loop's variable has none after its loop"),
        (behind_an_inner_loop, "has no value there: in Triton a loop's variable has none after its loop"),
        (printing_a_number, 'prints a number without a text before it; write `print("x", x)`'),
        pytest.param(
            checked_along_no_axis,
            "`boundary_check` names an axis that the tile does not have",
            marks=pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated"),
        ),
        (off_the_end_of_a_function, "and a function that ends without `return` gives none"),
        (leaving_by_nothing, "computes with what has no value there"),
        (reduced_off_the_end, "computes with what has no value there"),
        (gathered_from_the_end, "has the operation `tt.gather`"),
        (added_comparisons, "has a sum of truth values (write `|` or `&`)"),
        (cast, "has numbers in i8"),
        (cast_beyond, "casts 3e+09 to int32, which has no such number"),
        (cast_to_the_end, "casts 9.22337e+18 to int64, which has no such number"),
        (bits_of_an_address, "has addresses that are taken for those of other numbers"),
        (with_debug, "is under `triton.jit(debug=True)`"),
        (cast_nothing, "casts nan to int64, which has no such number"),
        (shifted, "shifts numbers of 32 bits by 40"),
        (counted_outside, "has the operation `tt.histogram`"),
        (in_bfloat16, "has numbers in bf16"),
        (specialized, "has a loop with `warp_specialize`"),
        (counted_outside_of_the_language, "such as `tl.cdiv`, in `tl.store(out, triton.cdiv"),
        (divided_in_float16, "has `tl.fdiv` of float16"),
        (kept_in_two_ways, "has two of `cache_modifier`, `eviction_policy` and `volatile` at once"),
        (counting_without_sign, "has numbers without a sign"),
        (counting_in_bytes, "has numbers in i8"),
        (branching, "branches or loops in what `tl.reduce` or a scan combines by"),
        (by_a_method, "uses `.exp()`, which Triton's interpreter lacks; write `tl.exp(x)`"),
    ],
)
def test_what_a_gpu_takes_otherwise_is_refused(kernel, says):
    assert says in run_once(kernel)["text"]


@pytest.mark.parametrize(
    "kernel",
    [
        with_private_names,
        with_quoted_constants,
        dividing,
        with_conditions,
        with_texts,
        behind_a_static_range,
        with_a_constant_first,
        declared_rightly,
        with_truths_of_numbers,
        with_two_of_a_name,
        reduced_as_numbers,
        calling_itself,
        with_a_barrier,
        with_an_empty_branch,
        in_two_loops,
        handing_nothing_on,
        with_a_loop_of_no_turn,
        with_an_odd_print,
        named_as_an_option,
        sorted_and_turned,
    ],
)
def test_what_a_gpu_takes_alike_is_not_refused(kernel):
    assert run_once(kernel)["value"].item() == 64.0


@pytest.mark.parametrize(
    "kernel",
    [
        told_by_a_condition,
        told_by_what_is_left_out,
        told_in_a_message,
        told_in_a_format,
        told_by_a_text,
        counting_down,
        masked_by_nothing_at_times,
    ],
)
def test_what_the_compiler_leaves_out_is_not_done(kernel):
    """The interpreter, which is Python, stores something."""
    assert "leaves 1 of the 1 entries" in run_once(kernel)["text"]


@pytest.mark.parametrize(
    ("kernel", "value"),
    [
        (told_in_an_expression, 1.0),
        (told_in_a_reduction, 1.0),
        (told_by_a_value, 16.0),
        (told_by_a_default, 1.0),
        (by_a_number_of_two_kinds, 1.0),
        (rounded_at_times, float(np.float16(1 / 3))),
        (counting_again, 1.0),
        (known_for_certain, -1.0),
        (one_or_more, 1.0),
        (two_names, 1.0),
        (by_a_joined_argument, -76.0),
        (helped_behind_and, 3.0),
        (by_two_of_one_name, 3.0),
        (by_texts_of_one_name, -74.0),
        (by_a_named_argument, -77.0),
        (in_any_case, -77.0),
        (counting_truths, 4.0),
        (in_64_bits, 2.0**38),
        (returning_two_kinds, 0.0),
        (with_a_sign_in_a_tuple, -1.0),
    ],
)
def test_a_kernel_does_what_the_compiler_makes_of_it(kernel, value):
    """The interpreter makes something else of each."""
    assert run_once(kernel)["value"].item() == value


def test_what_is_assumed_must_hold():
    assert "assumes what does not hold" in run_once(assuming)["text"]


@triton.jit
def converted(x, out, n_columns, TILE: tl.constexpr):
    tl.store(out, tl.load(x) * n_columns.to(tl.float32))


@triton.jit
def unless_one(x, out, n_columns, TILE: tl.constexpr):
    result = 1.0
    if ~(n_columns == 1):  # -2 for the compiler, if it is a constant
        result = 2.0
    tl.store(out, result)


def test_the_interpreter_has_that_constant_too():
    arguments = plan((1,), (1,)), torch.ones(64), torch.zeros(1), 1, 16
    assert run_call({"kernel": unless_one}, Call("kernel", arguments), watched=True)["value"].item() == 2.0


@pytest.mark.parametrize(("n", "refused"), [(1, True), (2, False)])
def test_of_a_count_that_is_1_triton_makes_a_constant(n, refused):
    arguments = plan((1,), (1,)), torch.ones(64), torch.zeros(1), n, 16
    outcome = run_call({"kernel": converted}, Call("kernel", arguments), watched=True)
    said = outcome.get("text", "")
    assert ("'int' object has no attribute 'to'" in said) == refused
    assert ("(here `n_columns` is 1, of which Triton makes a constant)" in said) == refused
    assert refused or outcome["value"].item() == 2.0


@pytest.mark.parametrize(
    ("kernel", "value"),
    [
        (dividing_the_count, -1.0),
        (wrapping, 0.0),
        (less_than_nothing, 5.0),
        (two_numbers, 4.0),
        (with_nothing_read, 0.25),
        (largest_of_constants, -4.0),
        pytest.param(
            advanced_beyond, 0.0, marks=pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
        ),
        (without_sign, 0.0),
        (rounded_twice, 1.0),
        (rounded_once, 1.0),
        (signed_zeros, 4.0),
        (smallest_numbers, 0.0),
        (overflowing_sum, float(3 * 2**30 - 2**32)),
        (rounded_down, 8.0),
        (two_truths, 1.0),
        (taken_for_bits, float(127 << 23)),
        (in_small_parts, 0.0),
        (told_the_truth, 1.0),
        (beyond_a_float, float("inf")),
        (rounded_in_place, -12.0),
        (too_wide, float(np.float32(70_004**2 - 2**32))),
    ],
)
def test_numbers_are_those_of_a_gpu(kernel, value):
    assert run_once(kernel)["value"].item() == value


def test_tiles_that_are_masked_out_count():
    kept = KeptMemory(Launch((1,), (1,)), [torch.ones(64), torch.full((1,), float("nan")), 64, 16])
    launches.launch_kept(to_a_fixed_end, kept)
    value, counts = kept.finish()
    assert value.item() == 64.0
    assert (counts["accesses"], counts["loads"]) == (128 // 16 + 1, 64)


def test_a_triton_that_is_too_old_is_named(monkeypatch):
    monkeypatch.setattr(triton, "__version__", "3.5.1")
    says = r"Exercise 6\.2 cannot be checked here: Triton 3\.5\.1 is installed, expected 3\.6 or newer"
    with pytest.raises(RuntimeError, match=says):
        check.q2(check.row_logsumexp, seed="too old")
    assert not sets._is_there("triton", (99,))
    assert not sets._is_there("nobody-has-this", (1,))


def test_a_triton_that_was_imported_as_a_compiler_is_named():
    late = 'import triton.language, os; os.environ["TRITON_INTERPRET"] = "1"'  # by another cell, say
    ask = "from linattn_exercises.ch06_fast import check; check.q2(check.row_logsumexp)"
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", f"{late}\n{ask}"], env=environment, capture_output=True, text=True
    )
    assert "Triton was imported as a compiler. Start Python again" in done.stderr.splitlines()[-1]
