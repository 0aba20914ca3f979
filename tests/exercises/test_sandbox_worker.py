"""How the cells of a notebook are run while it is graded."""

import asyncio
import gc
import json
import sys
import time
import types
from collections.abc import Iterator

import pytest
import torch

from linattn_exercises import serialization
from linattn_exercises.calls import Call, decode_outcome, find_fault
from linattn_exercises.grading import Limits, reading, sandbox_worker


@pytest.fixture(autouse=True)
def _main_module_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture(autouse=True)
def _loops_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the sandbox the process ends instead."""
    runners: list[asyncio.Runner] = []

    def start() -> asyncio.Runner:
        runners.append(of_python())
        return runners[-1]

    of_python = asyncio.Runner
    monkeypatch.setattr(asyncio, "Runner", start)
    yield
    for runner in runners:
        runner.close()


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("x = 1", "x = 1"),
        ("%pip install x\ny = 2", "pass\ny = 2"),
        ("if True:\n    !ls\nz = 3", "if True:\n    pass\nz = 3"),
        ("files = !ls\nt = %timeit -o f()\ntorch.randn?", "pass\npass\npass"),
        ("%%time\nx = 1", "x = 1"),
        ("%%capture out\n%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("%%bash\nls", ""),
        ("%%chime\nx = 1", "x = 1"),
        ("%%wandb -h 400\n%%time\n%ls\nx = 1", "pass\nx = 1"),
        ("%%some_language\nlet x be 1", ""),
        ("%%writefile f.py\nx = 1", ""),
        ("%%time\n%%HTML\nx", ""),
        ("%%!\nls", ""),
        ("x = 5 % 3", "x = 5 % 3"),
        ("await something()", "await something()"),
        ("%time f()\nx = (\n    7\n    % 4\n)", "pass\nx = (\n    7\n    % 4\n)"),
        ("%time f()\nx = [7\n    != 4]  # (\n!ls", "pass\nx = [7\n    != 4]  # (\npass"),
        ('%ls\nx = """\n% 3\n!ls"""\ny = 7 \\\n  % 4', 'pass\nx = """\n% 3\n!ls"""\ny = 7 \\\n  % 4'),
        ("%ls\nx = 'it\\'s ('\n%ls", "pass\nx = 'it\\'s ('\npass"),
        ('print("a) = %d" % 3)\n%ls', 'print("a) = %d" % 3)\npass'),
        (
            "m, d, u = %time f()\nt['%'] = %time f()\nt[a[0]].b: int = !ls",
            "m, d, u = f()\nt['%'] = f()\npass",
        ),
        ("%time import numpy as np\nif x:\n    %time y = f\n", "import numpy as np\nif x:\n    y = f\n"),
        ("%timeit y = f\n%time\n%time f(\\\n1)\n%time y = (", "pass\npass\npass\npass"),
        (
            "%prun -l 5 -s time -q y = f()\n%memit -r 1 -i .1 z = g()\nu = %prun f()\n%prun -s f()",
            "y = f()\nz = g()\npass\npass",
        ),
        ("In [3]: x = 1", "x = 1"),
        ("%timeit -n 3 \\\n    f() \\\n  + 1\nx = 1", "pass\nx = 1"),
        ("\n    x = 1\n    if x:\n        y = 2\n%ls", "\nx = 1\nif x:\n    y = 2\npass"),
        (">>> def f():\n...     return 1\n...\n>>> x = 2", "def f():\n    return 1\n\nx = 2"),
        ("In [7]: def f():\n   ...:     return 1\n", "def f():\n    return 1\n"),
        ("%%memit -r 1\nx = 1", "x = 1"),
        ("t[0]?\ny = t.a[-1].b??\nx = 'b?'  # a?", "pass\npass\nx = 'b?'  # a?"),
        (
            'f?\nx = """a?\nb?\n"""\nx = (\n    # c?\n    1)',
            'pass\nx = """a?\nb?\n"""\nx = (\n    # c?\n    1)',
        ),
        ("/f 1\n,f a b\n;f a b\nx = (4\n    / 2)", "pass\npass\npass\nx = (4\n    / 2)"),
        ("(a, b) = !ls\n[a, b] = %time f()\nx = 1", "pass\n[a, b] = f()\nx = 1"),
    ],
)
def test_magics_are_taken_out(source, want):
    assert reading.strip_magics(source) == want


IMPORTS = """from linattn_exercises.ch01_softmax.check import q5
import linattn_exercises.ch01_softmax.check as other
from linattn_exercises.ch01_softmax import check as third
"""


def read_cells(*sources: str) -> list[list]:
    cells = [{"cell_type": "code", "source": source} for source in sources]
    names = {"ch01_softmax": {"fault": "q2", "merge": "q5"}}
    return reading.read_notebook(json.dumps({"cells": cells}).encode(), names)["cells"]


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("check.q5(merge)", ["q5"]),
        ("%time check.q5(merge)", ["q5"]),
        ("%prun -l 5 -s cumulative check.q5(merge)", ["q5"]),
        ("if x:\n    %memit -r 1 -c check.q5(merge)", ["q5"]),
        ("%%time\nok = [check.q2(fault, repaired), check.q5(merge)]", ["q2", "q5"]),
        ("try: print(check.q5(merge))\nexcept Exception: pass", ["q5"]),
        ("q5(merge)", ["q5"]),
        ("x; other.q5(merge); third.q2(fault)", ["q2", "q5"]),
        ("linattn_exercises.ch01_softmax.check.q5(merge)", ["q5"]),
        ("linattn_exercises.ch01_softmax.check.q5(merge\n1 +", ["q5"]),
        ("check.q5(merge\n1 +", ["q5"]),
        ("# check.q5(merge)\nx = 'check.q5('\ncheck.q5\nq2(fault)\nmine.q5(merge)", []),
    ],
)
def test_a_check_is_seen_wherever_it_is_called(source, asked):
    assert read_cells(IMPORTS, source)[1][3] == asked


HELPERS = {
    "def": ("def ask():\n    check.q2(fault, repaired)", "ask()"),
    "lambda": ("ask = lambda: check.q2(fault, repaired)", "x = [ask()]"),
    "through another": ("def ask():\n    inner()\ndef inner():\n    check.q2(fault)", "%time ask()"),
    "nested": ("def ask():\n    def inner():\n        check.q2(fault)\n    inner()", "ask()"),
    "async": ("async def ask():\n    check.q2(fault)", "await ask()"),
    "if": ("if True:\n    def ask(*letters): print(check.q2(*letters))", "ask(fault, repaired)"),
}


@pytest.mark.parametrize("name", HELPERS)
def test_a_check_in_a_function_is_asked_where_that_is_called(name):
    defined, called = HELPERS[name]
    found = read_cells(IMPORTS, defined, "fault = 'A'", called, f"fault = 'C'\n{called}\nfault = 'B'")
    assert [cell[3] for cell in found[1:]] == [[], [], ["q2"], ["q2"], []]
    assert found[-1][0] == "fault = 'B'"


def test_a_function_of_a_name_is_the_last_one():
    ask = "def ask():\n    check.{}(x)\n    ask_others()\nask()".format
    assert [cell[3] for cell in read_cells(IMPORTS, ask("q2"), ask("q5"))[1:]] == [["q2"], ["q5"]]


@pytest.mark.parametrize(
    "source",
    [
        "@at_once\ndef ask():\n    check.q2(fault)",
        "class Asking:\n    def ask(self):\n        check.q2(fault)",
        "for _ in map(lambda letter: check.q2(letter), 'C'):\n    pass",
        "(lambda: check.q2(fault))()",
        "def ask(x=check.q2(fault)):\n    return x\n",
    ],
)
def test_a_function_that_is_called_by_no_name_asks_where_it_stands(source):
    assert read_cells(IMPORTS, source)[1][3] == ["q2"]


def test_lines_may_end_as_on_any_system():
    stub = "def merge(a, b):\r    raise NotImplementedError\rcheck.q5(merge)\r\nx = 1"
    asks, below = read_cells(IMPORTS, "def merge(a, b):\r    return a", stub)[2:]
    assert asks == ["check.q5(merge)", ["q5"], "q5", ["q5"]]
    assert below == ["x = 1", [], "q5", []]


def test_a_cell_ends_with_a_check_in_it():
    first = "def merge(a, b):\n    return a\n\nif True:\n    third.q5(merge)"
    second = "@f\ndef merge(a, b):\n    return b\nx = q5(merge); merge = 3"
    found = read_cells(IMPORTS, f"{first}\n{second}\n# the end", "%%time\nx = 1\ncheck.q5(merge)\nx = 2")
    assert [cell[0] for cell in found[1:3]] == [first, f"{second}\n# the end"]
    assert [cell[0] for cell in found[3:]] == ["x = 1\ncheck.q5(merge)", "x = 2"]
    assert [cell[3] for cell in found[1:]] == [["q5"], ["q5"], ["q5"], []]


BLOCKS = {
    "if": "if x:\n    {}",
    "else": "if x:\n    pass\nelse:\n    {}",
    "try": "try:\n    {}\nfinally:\n    pass",
    "except": "try:\n    pass\nexcept E:\n    {}",
    "with": "with x:\n    {}",
    "for": "for x in y:\n    {}",
    "while": "while x:\n    {}",
    "match": "match x:\n    case 1:\n        {}",
    "two": "if x:\n    with y:\n        {}",
}


@pytest.mark.parametrize("name", BLOCKS)
def test_names_in_blocks_are_defined_by_a_cell(name):
    defines = BLOCKS[name].format
    assert read_cells(IMPORTS, defines("merge = 1"))[1][1] == ["q5"]
    assert read_cells(IMPORTS, defines("def merge(a): return a"))[1][1:] == [["q5"], "q5", []]
    for nothing in ("merge = None", "def f(): merge = 1", "class A: merge = 1", "x = merge"):
        assert read_cells(IMPORTS, defines(nothing))[1][1] == []
    assert read_cells(IMPORTS, "fault = 1\nmerge = 1", defines("merge = 2"))[2][1:] == [[], "", []]


@pytest.mark.parametrize("name", BLOCKS)
def test_a_stub_in_a_block_leaves_a_statement_in_its_place(name):
    block = BLOCKS[name]
    (indent,) = (line.partition("{")[0] for line in block.split("\n") if "{" in line)
    stub = block.format(f"@f\n{indent}def merge(a, b):\n{indent}    raise NotImplementedError")
    assert read_cells(IMPORTS, stub)[1] == [stub, ["q5"], "q5", []]
    right = "if x:\n    merge = 1"
    assert read_cells(IMPORTS, right, stub)[2] == [block.format("pass"), ["q5"], "q5", []]
    assert read_cells(IMPORTS, stub, right)[1][0] == stub


@pytest.mark.parametrize(
    ("first", "want"),
    [
        ("exec('merge = 1')", [[], ["q5"], ["q2"], []]),
        ("merge = 1", [["q5"], [], ["q2"], []]),
        ("# Exercise 1.2: your answer", [["q2"], ["q5"], [], []]),
    ],
)
def test_a_cell_that_asks_one_check_belongs_to_a_question_that_has_no_other(first, want):
    asks = ["check.q5(merge)", "check.q2(fault)", "check.q2(fault) or check.q5(merge)"]
    assert [cell[1] for cell in read_cells(IMPORTS, first, *asks)[1:]] == want


def test_the_first_line_of_an_answer_may_be_indented():
    assert read_cells(IMPORTS, "if x:\n    # Exercise 1.5: your answer\n    exec(y)")[1][1] == ["q5"]


def test_no_text_is_drawn_over_the_lines_around_it():
    assert serialization.make_printable(
        "e\N{COMBINING ACUTE ACCENT}" * 3 + "\N{COMBINING GRAVE ACCENT}" * 50 + "!"
    ) == ("e\N{COMBINING ACUTE ACCENT}" * 3 + "\N{COMBINING GRAVE ACCENT}" * 3 + "!")


def test_large_cells_are_read_in_time():
    """As large as they may be; as in the worker, nothing looks for circles in their trees."""
    cells = (
        "x = [" + "1," * 97_000 + "]",
        "def f(a, b):\n    return a + b * 2\n" * 5_400,
        "x = 1\n" * 32_000,
        "%ls\n" + "x = 1\n" * 32_000,
        "if x:\n" + "    x = 1\n" * 19_000,
        "if x:\n    x = 1\n" * 10_000,
        "if x:\n    x = 1\n" + "elif x:\n    x = 1\n" * 10_000,
    )
    gc.disable()
    try:
        for some in (cells[:4], cells[4:]):
            begin = time.process_time()
            assert read_cells(IMPORTS, "def merge(a, b):\n    return a", *some)[1][1] == ["q5"]
            assert time.process_time() - begin < Limits().cpu
    finally:
        gc.enable()


def run(
    *cells: tuple[str, bool], clock: sandbox_worker.Clock | None = None
) -> tuple[types.ModuleType, dict | None, dict]:
    """Run cells, each with whether it belongs to the question; see ``run_cells`` for what comes back."""
    return sandbox_worker.run_cells([list(cell) for cell in cells], clock)


def test_a_cell_that_fails_does_not_stop_those_after_it():
    module, failure, _ = run(("1 / 0", False), ("x = 2", True), ("y = z", True), ("w = x", False))
    assert (module.x, module.w) == (2, 2)
    assert failure is not None
    assert (failure["error"], failure["line"]) == ("NameError", "y = z")


def test_an_import_that_is_missing_does_not_take_the_rest_of_its_cell():
    module, failure, _ = run(("import no_such_module\nimport math\nx = math.pi", True))
    assert module.x > 3
    assert failure is not None
    assert failure["error"] == "ModuleNotFoundError"


@pytest.mark.parametrize("fails", ["1 / 0", "open('/no/such/file')", "raise RuntimeError('no screen')"])
def test_a_statement_that_works_elsewhere_does_not_take_the_rest_of_its_cell(fails):
    module, failure, _ = run((f"{fails}\ndef f():\n    return 1", True))
    assert module.f() == 1
    assert failure is not None


def test_a_name_that_a_failed_statement_should_have_made_is_told_with_its_failure(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    cells = [["scale = 1 / 0\ndef f(x):\n    return scale * x", True]]
    outcome = sandbox_worker.run_calls({"cells": cells, "calls": [["f", [1]]]})["outcomes"][0]
    fault = find_fault(Call("f", (1,), ""), decode_outcome(outcome), 1)
    assert "raised NameError" in fault
    assert "its cell raised ZeroDivisionError in the line `scale = 1 / 0`" in fault


def test_definitions_alone_leave_out_what_takes_time():
    source = "x = 1\ndef f():\n    return x\nwhile True:\n    pass"
    module, _, _ = run((source, True), clock=sandbox_worker.Clock(5, 15))
    assert module.f() == 1


def test_an_assignment_that_takes_too_long_leaves_time_for_the_others():
    source = "x = [None for _ in iter(int, 1)]\ny = 2\ndef f():\n    return y"
    module, failure, _ = run((source, True), clock=sandbox_worker.Clock(0.5, 15))
    assert module.f() == 2
    assert not hasattr(module, "x")
    assert failure is not None
    assert "too long" in failure["text"]
    assert failure["error"] == "TimeoutError"


def test_many_slow_assignments_leave_time_for_the_calls(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    slow = "import time\ndef bench(n):\n    end = time.process_time() + 4\n"
    slow += "    while time.process_time() < end:\n        pass\n"
    slow += "".join(f"t{n} = bench({n})\n" for n in range(12))
    cells = [["def f(x):\n    return x + 1", True], [slow, True], ["import math\ny = math.pi", True]]
    calls = [["f", [1]], ["y", []]]
    begin = time.process_time()
    job = {"cells": cells, "calls": calls, "hurried": True, "limits": {"cpu": 2, "wall": 60}}
    report = sandbox_worker.run_calls(job)
    assert time.process_time() - begin < 1.2
    assert [outcome["value"] for outcome in report["outcomes"]] == [2, pytest.approx(3.14, abs=0.01)]


def test_many_names_take_no_time():
    begin = time.process_time()
    run(("".join(f"x{n} = {n}\n" for n in range(12_000)), True))
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("from torch import no_such_name", "from 'torch' (torch/__init__.py)"),
        ("from linattn_ref import no_such_name", "from 'linattn_ref' (linattn_ref/__init__.py)"),
        ("from json import no_such_name", "from 'json' (json/__init__.py)"),
        ("kept = bytearray(10**15)", "its cell needs more memory than it may use in the line `kept ="),
    ],
)
def test_a_message_is_about_what_failed_and_not_about_the_machine(monkeypatch, source, says):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    job = {"cells": [[source, True]], "calls": [["f", [1]]]}
    outcome = decode_outcome(sandbox_worker.run_calls(job)["outcomes"][0])
    assert says in find_fault(Call("f", (1,), ""), outcome, 1)


def test_await_at_the_margin():
    module, failure, _ = run(("import asyncio\nx = await asyncio.sleep(0, 7)", True))
    assert failure is None
    assert module.x == 7


def test_what_one_statement_has_started_another_may_wait_for():
    first = "import asyncio\nasync def start():\n    return asyncio.create_task(asyncio.sleep(0, 7))"
    module, failure, _ = run((first, True), ("task = await start()", True), ("x = await task", True))
    assert failure is None
    assert module.x == 7


SEVEN = "import asyncio\nasync def seven():\n    await asyncio.sleep(0.001)\n    return 7\n"


@pytest.mark.parametrize(
    "source",
    [
        "task = asyncio.create_task(seven())\nx = await task",
        "def start():\n    return asyncio.ensure_future(seven())\ntask = start()\nx = await task",
        "task = asyncio.get_running_loop().create_task(seven())\nx = await task",
        "left = [1, 7]\nwhile left:\n    x = left.pop(0) and asyncio.run(seven())\nassert not left",
        "left = iter([7, 1])\nx = next(left) * asyncio.run(seven()) / 7",
        "async def wait():\n    return await asyncio.create_task(seven())\n"
        "def g():\n    return asyncio.run(wait())\n"
        "x = g()\ntask = asyncio.create_task(seven())\nx = await task",
        "loop = asyncio.new_event_loop()\nx = loop.run_until_complete(seven())\nloop.close()",
        "x = await seven()\ntask = asyncio.create_task(asyncio.sleep(100))",
        "x = await seven()\ntask = asyncio.create_task(asyncio.to_thread(__import__('time').sleep, 1.5))",
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_what_needs_a_loop_runs_and_is_not_waited_for(source):
    begin = time.monotonic()
    module, failure, _ = run((SEVEN, True), (source, True))
    assert time.monotonic() - begin < 1
    assert failure is None
    assert module.x == 7


def test_what_is_imported_from_the_future_holds_for_all_that_comes_after():
    first = "from __future__ import annotations\ndef f(x: NotHere) -> NotHere:\n    return x"
    module, failure, _ = run((first, True), ("def g(x: NotHere):\n    return f(x)", True))
    assert failure is None
    assert module.g(3) == 3


def test_functions_of_a_notebook_can_be_pickled():
    import pickle

    module, _, _ = run(("def f():\n    return 3", True))
    assert pickle.loads(pickle.dumps(module.f)) is module.f


def test_the_last_function_of_a_name_counts_even_if_the_name_was_used_again(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    cells = [["def f(x):\n    return x\ndef f(x):\n    return x + 1", True], ["f = f(3)", True]]
    job = {"cells": cells, "calls": [["f", [1]]]}
    assert sandbox_worker.run_calls(job) == {"outcomes": [{"value": 2}]}


def test_our_checks_do_nothing():
    found = sandbox_worker.SilentModule("linattn_exercises.ch01_softmax").check
    assert isinstance(found, sandbox_worker.Anything)
    assert isinstance(found.q1(3), sandbox_worker.Anything)


def test_a_failure_names_the_line_of_the_answer_and_not_torch_s():
    module, _, _ = run(("import torch\ndef f(x):\n    return torch.zeros(2) @ x", True))
    outcome = serialization.call_answer(vars(module), "f", [serialization.encode(torch.zeros(3))])
    assert outcome["error"] == "RuntimeError"
    assert outcome["line"] == "return torch.zeros(2) @ x"
