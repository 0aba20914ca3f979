"""What a notebook is worth, in whatever shape it comes; what is said about a file that is none."""

import json
import re
import textwrap
from collections.abc import Callable

import pytest
import torch

from linattn_exercises.grading import Limits
from linattn_exercises.grading.reading import UnreadableNotebook
from linattn_exercises.sets import load_questions
from tests.exercises.gradebook import TOTAL, grade, make_grader, messages, points, read, write
from tests.exercises.notebooks import answer_cell, hand_in, keep_questions, notebook, source_of

WATCHED = load_questions("ch01_softmax")["q4"].info  # takes most of the time that a notebook takes


def leave_out(content: dict) -> dict:
    """Return a notebook without the cells of the watched question."""
    content["cells"] = [cell for cell in content["cells"] if not cell.get("id", "").startswith(WATCHED.id)]
    return content


@pytest.fixture(scope="module")
def grader(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return make_grader(out, limits=Limits(cpu=2, wall=20))


def test_all_right(grader, tmp_path):
    one = grade(grader, write(tmp_path / "a.ipynb", notebook("ch01_softmax")))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL


def test_nothing_answered(grader, tmp_path):
    one = grade(grader, write(tmp_path / "a.ipynb", notebook("ch01_softmax", "exercises")))["a.ipynb"]
    assert set(points(one).values()) == {0}
    assert all("is not answered yet" in message for message in messages(one).values())


def test_a_renamed_notebook_without_metadata_and_text_still_grades(grader, tmp_path):
    """What may be left after another program: the code, and in it the import of the checks."""
    content = notebook("ch01_softmax")
    content["metadata"] = {}
    content["cells"] = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    for cell in content["cells"]:
        cell.pop("id")
        cell["metadata"] = {}
        cell["source"] = cell["source"].replace(": your answer", "")
    one = grade(grader, write(tmp_path / "work of mine (2).ipynb", content))["work of mine (2).ipynb"]
    assert sum(points(one).values()) == TOTAL


def _indent(source: str) -> str:
    return textwrap.indent(source, "    ")


IN_BLOCKS: dict[str, Callable[[str], str]] = {  # what a right answer may stand in
    "try": lambda answer: f"try:\n{_indent(answer)}\nexcept Exception:\n    raise",
    "if": lambda answer: f"if True:\n{_indent(answer)}",
    "with": lambda answer: f"with torch.no_grad():\n    with torch.no_grad():\n{_indent(_indent(answer))}",
    "for": lambda answer: f"for _ in range(1):\n{_indent(answer)}",
    "while": lambda answer: f"while True:\n{_indent(answer)}\n    break",
    "match": lambda answer: f"match 1:\n    case 1:\n{_indent(_indent(answer))}",
    "a text": lambda answer: f"exec({answer!r})",
    "a function": lambda answer: f"def f():\n    global fault, repaired, merge\n{_indent(answer)}\nf()",
}


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "not marked"])
@pytest.mark.parametrize("block", IN_BLOCKS)
def test_an_answer_may_stand_in_a_block_where_no_text_is_left(grader, tmp_path, block, marked):
    content = keep_questions(notebook("ch01_softmax"), "q2", "q5")
    content["cells"] = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    for cell in content["cells"]:
        if cell["id"].endswith("-answer"):
            answer = cell["source"] if marked else cell["source"].replace(": your answer", "")
            cell["source"] = IN_BLOCKS[block](answer)
    later = {"cell_type": "code", "metadata": {}, "source": "try:\n    merge = None\nfinally:\n    pass"}
    content["cells"].append(later)
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q2"] == points(one)["q5"] == 3, messages(one)


@pytest.mark.parametrize("block", ["try", "with"])
@pytest.mark.parametrize("left", [lambda stub: stub, IN_BLOCKS["if"]], ids=["at the margin", "in a block"])
@pytest.mark.parametrize("above", [True, False], ids=["above", "below"])
def test_a_stub_may_be_left_beside_an_answer_in_a_block(grader, tmp_path, block, left, above):
    content = keep_questions(notebook("ch01_softmax", "exercises"), "q5")
    cell = answer_cell(content, "q5")
    cell["source"] = left(cell["source"])
    answer = {"cell_type": "code", "metadata": {}, "source": IN_BLOCKS[block](RIGHT)}
    content["cells"].insert(content["cells"].index(cell) + above, answer)
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q5"] == 3, messages(one)["q5"]


def test_a_stub_in_a_block_is_no_answer(grader, tmp_path):
    content = keep_questions(notebook("ch01_softmax", "exercises"), "q5")
    content["cells"] = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    answer_cell(content, "q5")["source"] = IN_BLOCKS["try"]("def merge(a, b):\n    raise NotImplementedError")
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert "is not answered yet" in messages(one)["q5"]


def test_a_letter_that_a_loop_looks_for_may_begin_as_none(grader, tmp_path):
    loop = "for letter in 'ABC':\n    if fault is None and letter == 'C':\n        fault = letter\n"
    content = keep_questions(hand_in("ch01_softmax", {"q2": f"fault = None\n{loop}{REPAIRED}"}), "q2")
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q2"] == 3, messages(one)["q2"]


def test_helpers_may_stand_anywhere(grader, tmp_path):
    """A helper in a shared cell, one in a cell of its own question, one in the cell of another question."""
    content = leave_out(notebook("ch01_softmax"))
    cell = answer_cell(content, "q5")
    cell["source"] = (
        "def merge(a, b):\n    m = larger(a, b)\n    return a if m == -math.inf else joined(a, b, m)"
    )
    helper = "def joined(a, b, m):\n    f, g = factor(a, m), factor(b, m)\n"
    helper += "    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]"
    content["cells"].insert(
        content["cells"].index(cell) + 1, {"cell_type": "code", "metadata": {}, "source": helper}
    )
    answer_cell(content, "q1")["source"] += "\n\ndef larger(a, b):\n    return max(a[0], b[0])\n"
    setup = next(one for one in content["cells"] if one.get("id") == "setup")
    setup["source"] += "\n\ndef factor(a, m):\n    return math.exp(a[0] - m)\n"
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL - WATCHED.points, messages(one)


def test_what_a_reader_saw_is_what_counts(grader, tmp_path):
    """Cells before may import and set; a name may be used for something else later on."""
    content = leave_out(notebook("ch01_softmax"))
    answer_cell(content, "q1")["source"] += "\nimport math as maths\ntorch.set_default_dtype(torch.float64)"
    again = "\ndef merge(x):\n    return maths.prod([x])\n\n\nbefore = cache_bytes\n\n\n"
    again += "def cache_bytes(*given):\n    return merge(before(*given))"
    answer_cell(content, "q3")["source"] += again
    merge = "def merge(a, b):\n    m = torch.tensor([a[0], b[0]]).max()\n"
    merge += "    if m == -math.inf:\n        return a\n"
    merge += "    f, g = (torch.tensor([a[0], b[0]]) - m).exp().tolist()\n"
    merge += "    return m.item(), f * a[1] + g * b[1], f * a[2] + g * b[2]"
    answer_cell(content, "q5")["source"] = merge
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL - WATCHED.points, messages(one)


def after(content, question, source):
    """Put a cell of code after that of an answer, which first calls its check."""
    cells = content["cells"]
    place = 1 + cells.index(answer_cell(content, question))
    asks = next(n for n in range(place, len(cells)) if f"check.{question}(" in "".join(cells[n]["source"]))
    cells.insert(asks + 1, {"cell_type": "code", "metadata": {}, "source": source})


def test_an_experiment_after_the_check_changes_nothing(grader, tmp_path):
    """It may use a helper's name, that of another question's answer, or seconds."""
    content = leave_out(notebook("ch01_softmax"))
    answer_cell(content, "q5")["source"] = "def low(m):\n    return m == -math.inf\n\n\n" + RIGHT.replace(
        "m == -math.inf", "low(m)"
    )
    after(content, "q5", "def low(m):\n    return True\nmerge(*2 * [(0.0, 1.0, torch.ones(3))])")
    after(content, "q5", "fault = 1e-3")  # of question 2
    after(content, "q2", "for i in range(10**12):\n    pass")
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL - WATCHED.points, messages(one)


@pytest.mark.parametrize("name", ["low(m)", "m == low"])
@pytest.mark.parametrize("again", ["return a", "return 1 / 0"])
def test_an_experiment_after_the_check_changes_nothing_where_a_cell_of_another_question_is_needed(
    grader, tmp_path, name, again
):
    """In some calls the answer does not need it, and gives a value without that cell."""
    content = leave_out(
        hand_in("ch01_softmax", {"q5": RIGHT.replace("m == -math.inf", f"m < -1 and {name}")})
    )
    answer_cell(content, "q3")["source"] += (
        "\nlow = -math.inf" if "==" in name else "\ndef low(m):\n    return m == -math.inf"
    )
    after(content, "q5", f"def merge(a, b):\n    {again}")
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q5"] == 3, messages(one)["q5"]


def test_slow_cells_of_other_questions_leave_time_for_an_answer_after_the_check(grader, tmp_path):
    content = leave_out(hand_in("ch01_softmax", {"q5": "def merge(a, b):\n    return a"}))
    answer_cell(content, "q1")["source"] += (
        "\nwhile True:\n    try:\n        1 / 0\n    except:\n        pass"
    )
    loop = "import time\nn, end = 0, time.process_time() + 0.5\nwhile time.process_time() < end:\n    pass\n"
    loop += "else:\n    n = 1\n"  # and has the time that it needs, as nothing in its own section is slow
    after(content, "q5", loop + RIGHT.replace("m == -math.inf", "m == -n * math.inf"))
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q5"] == 3, messages(one)["q5"]


WHAT_ONLY_A_NOTEBOOK_TAKES: dict[str, Callable[[str], str]] = {
    "nothing": lambda cell: cell,
    "a statement that fails": lambda cell: cell.replace("(merge)\n", "(merge)\nassert False, 'old tries'\n"),
    "a magic": lambda cell: "%matplotlib inline\n" + cell,
    "a command over two lines": lambda cell: "!pip install \\\n    einops\n" + cell,
    "a timed cell": lambda cell: "%%time\n" + cell,
    "an indented cell": lambda cell: textwrap.indent(cell, "    "),
    "a timed check": lambda cell: cell.replace("check.q5", "%time check.q5"),
    "a profiled check": lambda cell: cell.replace("check.q5", "%prun -l 5 -s cumulative check.q5"),
    "a measured check": lambda cell: cell.replace("check.q5", "%memit -r 1 -c check.q5"),
    "a timing below": lambda cell: cell + "%timeit merge(1, 2)\n",
    "a request for help below": lambda cell: cell + "merge?\n",
}


@pytest.mark.parametrize("beside", WHAT_ONLY_A_NOTEBOOK_TAKES)
def test_an_experiment_below_the_check_in_its_cell_changes_nothing(grader, tmp_path, beside):
    cell = RIGHT + "\ncheck.q5(merge)\ndef merge(a, b):\n    return a\n"
    content = leave_out(hand_in("ch01_softmax", {"q5": WHAT_ONLY_A_NOTEBOOK_TAKES[beside](cell)}))
    content["cells"] = [
        cell
        for cell in content["cells"]
        if cell.get("id") == "q5-answer" or "check.q5" not in "".join(cell["source"])
    ]
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q5"] == 3, messages(one)["q5"]


def test_a_better_answer_after_the_check_counts_as_well(grader, tmp_path):
    content = leave_out(hand_in("ch01_softmax", {"q5": "def merge(a, b):\n    return a"}))
    after(content, "q5", RIGHT)
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL - WATCHED.points, messages(one)


def test_slow_experiments_leave_what_an_answer_needs(grader, tmp_path):
    """Of its own section before the check, and of another one where its helper stands."""
    content = leave_out(notebook("ch01_softmax"))
    slow = "\nbegin = time.process_time()\nwhile time.process_time() - begin < 6:\n    sum(range(1000))\n"
    answer_cell(content, "q1")["source"] += "\nimport time\n\ndef low(m):\n    return m == -math.inf\n" + slow
    own = (
        "limits = []\nfor n in range(40):\n    limits.append(-math.inf)\nif limits:\n    least = limits[0]\n"
    )
    class_of_them = "class Slow:\n" + textwrap.indent(slow.strip(), "    ") + "\n\n\n"
    answer_cell(content, "q5")["source"] = (
        class_of_them + own + slow + RIGHT.replace("m == -math.inf", "low(m) or m == least")
    )
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL - WATCHED.points, messages(one)


def test_what_stands_beside_a_stub_and_what_is_imported_with_a_missing_module_stays(grader, tmp_path):
    content = leave_out(notebook("ch01_softmax"))
    beside = "import a_module_that_is_not_here, math as maths\n\ndef least():\n    return -maths.inf\n\n"
    cell = answer_cell(content, "q5")
    cell["source"] = beside + "def merge(a, b):\n    raise NotImplementedError\n\nprint(least())"
    filled = RIGHT.replace("m == -math.inf", "m == least()")
    content["cells"].insert(1 + content["cells"].index(cell), {**cell, "source": filled, "id": "filled"})
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL - WATCHED.points, messages(one)


def test_an_answer_under_own_names_beside_a_stub_that_holds_a_function(grader, tmp_path):
    content = keep_questions(notebook("ch05_selection", "exercises"), "q2")
    question = load_questions("ch05_selection")["q2"]
    assert "    def scan(" in answer_cell(content, "q2")["source"]
    own = answer_cell(notebook("ch05_selection"), "q2")["source"]
    for name in question.reference:
        own = re.sub(rf"\b{name}\b", f"my_{name}", own)
    own += f"\n\ncheck.q2({', '.join(f'my_{name}' for name in question.reference)})"
    content["cells"] = [cell for cell in content["cells"] if cell.get("id") != "q2-check"]
    content["cells"].append({"cell_type": "code", "metadata": {}, "source": own})
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q2"] == question.info.points, messages(one)["q2"]


def test_the_last_line_of_a_stub_may_stay_below_an_answer(grader, tmp_path):
    answered = RIGHT.rstrip() + "\n    raise NotImplementedError\n"
    content = leave_out(hand_in("ch01_softmax", {"q5": answered}))
    after(content, "q5", "merge = 3  # another use of the name")
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL - WATCHED.points, messages(one)


def test_a_stub_beside_a_long_sum_and_a_number_without_end_are_read(tmp_path):
    content = hand_in("ch01_softmax", {"q5": RIGHT})
    content["cells"][0]["metadata"]["n"] = 0
    stub = "def merge(a, b):\n    raise NotImplementedError\n\nx = " + " + ".join(["0.125"] * 400)
    content["cells"].append({"cell_type": "code", "metadata": {}, "source": stub})
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(content).replace('"n": 0', f'"n": {"9" * 5_000}'))
    assert [one.source for one in read(path).cells if "raise NotImplementedError" in one.source] == []


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)", "os.abort()"])
def test_a_kernel_that_is_restarted_first_costs_nothing(grader, tmp_path, end):
    content = hand_in("ch01_softmax", {"q5": RIGHT}, "exercises")
    first = {"cell_type": "code", "metadata": {}, "source": f"!pip install torch\nimport os\n{end}"}
    content["cells"].insert(0, first)
    assert points(grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"])["q5"] > 0


def test_magics_and_failing_cells_do_no_harm(grader, tmp_path):
    content = leave_out(notebook("ch01_softmax"))
    for source in ("%matplotlib inline\n1 / 0", "!ls", "%%bash\nls", "display(3)\nundefined"):
        content["cells"].insert(3, {"cell_type": "code", "metadata": {}, "source": source})
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL - WATCHED.points


def test_an_answer_that_crashes_costs_one_question(grader, tmp_path):
    content = hand_in("ch01_softmax", {"q3": "def cache_bytes(config, tokens, batch:\n    return 1"})
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one) == {**{q: load_questions("ch01_softmax")[q].info.points for q in points(one)}, "q3": 0}
    assert "SyntaxError" in messages(one)["q3"]


# A right answer to question 5.
RIGHT = "def merge(a, b):\n    m = max(a[0], b[0])\n    if m == -math.inf:\n        return a\n"
RIGHT += "    f, g = math.exp(a[0] - m), math.exp(b[0] - m)\n"
RIGHT += "    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]\n"
TWICE = "((0.0, 1.0, torch.ones(3)), (0.0, 1.0, torch.ones(3)))"  # arguments


@pytest.mark.parametrize(
    "source",
    [
        "%%time\n" + RIGHT,
        RIGHT + "check.q5(merge)\nmerge = merge((0.0, 1.0, torch.ones(3)), (0.0, 1.0, torch.ones(3)))",
        RIGHT + "for i in range(10**12):\n    pass",
        "import a_module_that_is_not_here\n" + RIGHT,
        RIGHT + "torch.randn?",
        "check.q5(merge)\n" + RIGHT,
        "merge = None\n" + RIGHT.replace("def merge(", "def joined(") + "merge = joined",
        RIGHT + f"m, d, u = %time merge{TWICE}\nt = {{}}\nt['a'] = %time merge{TWICE}",
        RIGHT.replace("m = max(", "m = max(  # black\n        7\n        % 4\n        * 0.0\n        + ")
        + f"%timeit -n 3 \\\n    merge{TWICE}",
        "    x = 1\n" + textwrap.indent(RIGHT, "    "),
        "".join(f"{'...' if line[0] == ' ' else '>>>'} {line}" for line in RIGHT.splitlines(keepends=True)),
        "%%memit\n" + RIGHT,
        "%%chime\n" + RIGHT,
    ],
    ids=[
        "timed",
        "name used again",
        "slow",
        "import",
        "help",
        "checked too early",
        "assigned",
        "names of what was timed",
        "laid out by black",
        "indented",
        "with prompts",
        "measured",
        "unknown magic",
    ],
)
def test_a_right_answer_in_an_unusual_cell_is_right(grader, tmp_path, source):
    content = leave_out(hand_in("ch01_softmax", {"q5": source}))
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL - WATCHED.points, messages(one)["q5"]


def test_a_device_that_is_set_for_all_changes_nothing(grader, tmp_path):
    content = notebook("ch01_softmax")
    setup = next(one for one in content["cells"] if one.get("id") == "setup")
    setup["source"] += "\ntorch.set_default_device('cpu')"
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL, messages(one)
    question = load_questions("ch01_softmax")["q4"]
    with torch.device("cpu"):  # in a notebook
        assert question.check(question.reference, "with a device").right


def test_all_answers_in_one_cell(grader, tmp_path):
    content = notebook("ch01_softmax")
    every = "\n\n".join(cell["source"] for cell in content["cells"] if cell["cell_type"] == "code")
    content["cells"] = [{"cell_type": "code", "metadata": {}, "source": every}]
    assert sum(points(grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]).values()) == TOTAL


def test_an_answer_above_the_stub_that_was_left(grader, tmp_path):
    content = notebook("ch01_softmax", "exercises")
    cell = {"cell_type": "code", "metadata": {}, "source": RIGHT}
    content["cells"].insert(content["cells"].index(answer_cell(content, "q5")), cell)
    assert points(grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"])["q5"] == 3


FIXED = answer_cell(notebook("ch01_softmax"), "q2")["source"].replace('fault = "C"', "fault = None")
REPAIRED = FIXED.replace("fault = None", "")
GIVEN = {  # what stands in the cells of 1.2 and of its check
    "a letter": (FIXED, 'check.q2("C", repaired)'),
    "letters in turn": (FIXED, 'check.q2("B", repaired)\ncheck.q2(\n    "C",  # at last\n    repaired)'),
    "letters on a line": (FIXED, 'check.q2("B", repaired); check.q2("C", repaired)'),
    "another name": (FIXED + '\nchoice = "C"', "%time check.q2(choice, repaired)"),
    "another name, profiled": (FIXED + '\nchoice = "C"', "%prun check.q2(choice, repaired)"),
    "another name, measured": (FIXED + '\nchoice = "C"', "%memit -r 1 -i check.q2(choice, repaired)"),
    "a function by another name": (FIXED.replace("repaired", "mine"), 'check.q2("C", mine)'),
    "the name of the stub above": (FIXED.replace("fault = None", 'fault = "C"'), 'check.q2("B", repaired)'),
    "a star": (FIXED.replace("repaired", "mine") + '\nboth = "C", mine', "check.q2(*both)"),
    "a star for the last": (FIXED.replace("repaired", "mine") + "\nrest = [mine]", 'check.q2("C", *rest)'),
}


@pytest.mark.parametrize("given", GIVEN)
def test_what_no_cell_defines_is_what_its_check_was_given(grader, tmp_path, given):
    answer, asked = GIVEN[given]
    content = keep_questions(hand_in("ch01_softmax", {"q2": answer}), "q2")
    next(one for one in content["cells"] if one.get("id") == "q2-check")["source"] = asked
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q2"] == 3, messages(one)["q2"]


ASKED = {  # where the call of a check may stand
    "in a call": "print(check.q2('C', repaired))",
    "assigned": "verdict = check.q2('C', repaired)",
    "one of two": "x, y = 1, check.q2('C', repaired)",
    "asserted": "assert check.q2('C', repaired) is None",
    "in a with": "with torch.no_grad():\n    check.q2('C', repaired)",
    "in a try": "try:\n    check.q2('B', repaired)\n    check.q2('C', repaired)\nfinally:\n    pass",
    "in an if": "if fault is None:\n    print(check.q2('C', repaired))",
    "before a helper": "check.q2('C', repaired)\ndef ask(f):\n    check.q2(f, repaired)",
    "before a list": "check.q2('C', repaired)\nprint([check.q2(f, repaired) for f in 'AB'])",
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_a_check_is_given_is_seen_wherever_it_is_called(tmp_path, asked):
    content = hand_in("ch01_softmax", {"q2": FIXED})
    next(one for one in content["cells"] if one.get("id") == "q2-check")["source"] = ASKED[asked]
    cells = read(write(tmp_path / "a.ipynb", content)).cells
    assert [one.source for one in cells if "fault, _given, = ('C', repaired,)" in one.source]


def test_what_a_loop_gives_a_check_last_is_what_counts(grader, tmp_path):
    content = keep_questions(hand_in("ch01_softmax", {"q2": FIXED}), "q2")
    asked = next(one for one in content["cells"] if one.get("id") == "q2-check")
    asked["source"] = "for letter in 'BC':\n    print(check.q2(letter, repaired))"
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q2"] == 3, messages(one)["q2"]


CHOOSING = {  # a letter by what a cell of question 1 has defined, and another where that is not there
    "a loop": "errors = dict.fromkeys('ABC', 0.0)\nfor one in errors:\n    errors[one] = explain(one)\n"
    "fault = max(errors, key=errors.get)",
    "a sum": "score = dict.fromkeys('ABC', 0)\nscore['C'] += explain('C')\nfault = max(score, key=score.get)",
    "an if": "fault = 'A'\nif explain('C'):\n    fault = 'C'",
    "a default": "fault = next((one for one in 'BC' if 'explain' in globals() and explain(one)), 'A')",
}


@pytest.mark.parametrize("choosing", CHOOSING)
def test_a_letter_may_need_a_cell_of_an_earlier_section(grader, tmp_path, choosing):
    content = keep_questions(hand_in("ch01_softmax", {"q2": f"{CHOOSING[choosing]}\n{REPAIRED}"}), "q1", "q2")
    answer_cell(content, "q1")["source"] += "\ndef explain(letter):\n    return float(letter == 'C')\n"
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q2"] == 3, messages(one)["q2"]


SECONDS = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end:\n    pass\n"


@pytest.mark.parametrize(
    ("earlier", "own", "given", "says"),
    [
        (5, 0.7, 3, "agree with the reference"),
        (0, 5, 0, "too slow, or a loop without end. Where its slow cells were cut short: `fault` got 'A'"),
    ],
    ids=["beside slow cells", "cut short"],
)
def test_a_letter_that_a_slow_loop_chooses(grader, tmp_path, earlier, own, given, says):
    """One that takes its time beside slow cells of other sections is right; of one cut short that is said."""
    choice = f"fault = 'A'\n{SECONDS.format(own)}else:\n    fault = 'C'\n{REPAIRED}"
    content = keep_questions(hand_in("ch01_softmax", {"q2": choice}), "q1", "q2")
    answer_cell(content, "q1")["source"] += "\n" + SECONDS.format(earlier)
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q2"] == given, messages(one)["q2"]
    assert says in messages(one)["q2"]


def test_a_letter_that_is_asked_again_by_a_helper_is_the_last_one(grader, tmp_path):
    first = FIXED.replace("fault = None", 'fault = "A"')
    helper = "\ndef ask():\n    check.q2(fault, repaired)\nask()"
    setup = "import torch\nfrom linattn_exercises.ch01_softmax import check"
    cells = [setup, first + helper, 'fault = "C"\nask()']
    content = {"cells": [{"cell_type": "code", "source": source} for source in cells]}
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q2"] == 3, messages(one)["q2"]


def test_a_letter_above_a_stub_whose_cell_holds_the_rest(grader, tmp_path):
    content = leave_out(hand_in("ch01_softmax", {"q2": FIXED}))
    place = content["cells"].index(answer_cell(content, "q2"))
    content["cells"].insert(place, {"cell_type": "code", "metadata": {}, "source": 'fault = "C"'})
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL - WATCHED.points, messages(one)


@pytest.mark.parametrize("head", ["if True:", "try:", "with torch.no_grad():"])
def test_an_answer_in_a_block_under_another_heading_fills_the_stub_that_was_left(grader, tmp_path, head):
    content = keep_questions(notebook("ch01_softmax", "exercises"), "q5")
    next(one for one in content["cells"] if one.get("id") == "q5-check")["source"] = "# see the end"
    block = f"{head}\n{textwrap.indent(RIGHT, '    ')}" + ("finally:\n    pass\n" if head == "try:" else "")
    content["cells"] += [
        {"cell_type": "markdown", "metadata": {}, "source": "# Exercise 1.1, again"},
        {"cell_type": "code", "metadata": {}, "source": f"{block}check.q5(merge)"},
    ]
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q5"] == 3, messages(one)["q5"]


def test_a_stub_costs_one_run(tmp_path, monkeypatch):
    content = notebook("ch01_softmax", "exercises")
    again = {"cell_type": "code", "metadata": {}, "source": "# Exercise 1.5: your answer\nx = 1"}
    content["cells"].append(again)  # after its check, so that attempts differ
    grader, box = make_grader(tmp_path / "out"), SlowSandbox()
    box.outcome = {"error": "NotImplementedError"}
    monkeypatch.setattr(grader, "_get_sandbox", lambda own_code: box)
    question = load_questions("ch01_softmax")["q5"]
    right, message = grader._judge_submission(read(write(tmp_path / "a.ipynb", content)), question, "a")
    assert (right, message, box.runs) == (False, "`merge` is not answered yet.", 1)


def test_a_value_above_the_stub_that_was_left(grader, tmp_path):
    content = notebook("ch02_linear", "exercises")
    stub = answer_cell(content, "q3")
    assert "= None" in stub["source"]
    answer = answer_cell(notebook("ch02_linear"), "q3")["source"]
    content["cells"].insert(
        content["cells"].index(stub), {"cell_type": "code", "metadata": {}, "source": answer}
    )
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert [name for name, value in points(one).items() if value] == ["q3"]


@pytest.mark.parametrize(("allowed", "given"), [(0, 0), (20, 3)])
def test_an_answer_gets_a_multiple_of_what_the_reference_takes(tmp_path, monkeypatch, allowed, given):
    slow = "\nbegin = time.process_time()\n\ndef merge(a, b, right=merge):\n"
    slow += "    while time.process_time() - begin < 3:\n        pass\n    return right(a, b)\n"
    content = leave_out(hand_in("ch01_softmax", {"q5": "import time\n" + RIGHT + slow}))
    grader = make_grader(tmp_path / "out", limits=Limits(cpu=1, wall=5))
    took = load_questions("ch01_softmax")["q5"].prepare(grader.seed).seconds
    monkeypatch.setattr("linattn_exercises.questions.TIMES_REFERENCE", allowed / took)
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q5"] == given, messages(one)["q5"]


class SlowSandbox:
    """Stand for a sandbox in which every answer is wrong and takes 20 seconds; count how often one runs."""

    def __init__(self) -> None:
        self.seconds, self.runs = 0.0, 0
        self.outcome: dict[str, str | None] = {"value": None}  # of each call

    def run(self, cells, calls, hurried, limits):
        self.seconds, self.runs = self.seconds + 20, self.runs + 1
        return [self.outcome for _ in calls]


@pytest.mark.parametrize(("wall", "runs"), [(5, 1), (15, 3), (60, 4)])
def test_no_attempt_begins_after_three_limits_on_the_clock(tmp_path, monkeypatch, wall, runs):
    content = notebook("ch01_softmax")
    for number, cell in enumerate(content["cells"]):
        if cell["cell_type"] == "code":
            cell["source"] += f"\nx{number} = {number}"  # so that no two attempts are alike
    again = {**answer_cell(content, "q5"), "id": "again"}  # another cell of the question, after its check
    content["cells"].append({"cell_type": "code", "metadata": {}, "source": again["source"]})
    grader, box = make_grader(tmp_path / "out", limits=Limits(cpu=5, wall=wall)), SlowSandbox()
    monkeypatch.setattr(grader, "_get_sandbox", lambda own_code: box)
    monkeypatch.setattr("linattn_exercises.grading.grade.time.monotonic", lambda: box.seconds)
    submission = read(write(tmp_path / "a.ipynb", content))
    grader._judge_submission(submission, load_questions("ch01_softmax")["q5"], "a")
    assert box.runs == runs


def answer_differently(content, question, values):
    """Let a notebook have another answer up to its check, to the end, and both with all cells before them."""
    answer_cell(content, "q1")["source"] += "\nseen = True"
    answer = answer_cell(content, question)
    first, at_end, first_with_all, at_end_with_all = values
    tell = "\nif 'seen' in globals():\n    {}\nelse:\n    {}\n"
    again = {**answer, "id": "again", "source": tell.format(at_end_with_all, at_end)}
    answer["source"] += tell.format(first_with_all, first)
    check = f"check.{question}"
    asked = max(n for n, cell in enumerate(content["cells"]) if check in "".join(cell["source"]))
    content["cells"].insert(asked + 1, again)
    return content


@pytest.mark.parametrize(("place", "given"), [(0, 0), (1, 0), (2, 4), (3, 0)])
def test_of_several_letters_the_one_that_its_check_saw_counts(grader, tmp_path, place, given):
    right = load_questions("ch02_linear")["q3"].reference["fault"]
    letters = [letter for letter in "ABCDE" if letter != right][:3]
    letters.insert(place, right)
    letters = [f"fault = {letter!r}" for letter in letters]
    content = answer_differently(notebook("ch02_linear"), "q3", letters)
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q3"] == given, messages(one)


@pytest.mark.parametrize("first", ["fault = None", "fault = 3", "fault = 'not sure'", "fault = 'D or E'"])
def test_what_is_no_letter_does_not_take_the_place_of_one(grader, tmp_path, first):
    right = f"fault = {load_questions('ch02_linear')['q3'].reference['fault']!r}"
    content = answer_differently(notebook("ch02_linear"), "q3", [first, right, first, right])
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q3"] == 4, messages(one)


@pytest.mark.parametrize(("place", "given"), [(0, 3), (1, 0), (2, 3), (3, 0)])
def test_of_other_answers_the_two_that_were_there_at_the_check_count(grader, tmp_path, place, given):
    wrong = "merge = lambda a, b: ({}.0, 1.0, torch.ones(3))"
    answers = [wrong.format(number) for number in range(3)]
    answers.insert(place, "merge = right")
    content = leave_out(hand_in("ch01_softmax", {"q5": RIGHT + "right = merge"}))
    one = grade(grader, write(tmp_path / "a.ipynb", answer_differently(content, "q5", answers)))["a.ipynb"]
    assert points(one)["q5"] == given, messages(one)["q5"]


# Answers, by the names that ``answer_differently`` has for its values.
LACKS = "merge = lambda a, b: right(a, b) if a[0] == -math.inf else not_here"
TWO, THREE = (f"merge = lambda a, b: ({number}.0, 1.0, torch.ones(3))" for number in (2, 3))


@pytest.mark.parametrize(
    ("first", "first_with_all", "at_end", "at_end_with_all", "given"),
    [
        (LACKS, "merge = right", TWO, TWO, 3),
        (LACKS, TWO, LACKS, "merge = right", 3),
        (LACKS, LACKS, TWO, "merge = right", 3),
        (LACKS, TWO, THREE, "merge = right", 0),
        (TWO, LACKS, THREE, "merge = right", 0),
    ],
)
@pytest.mark.parametrize("lacking", ["not_here", "{}['not here']"])
def test_an_answer_that_fails_in_a_call_is_none_of_two_and_gives_no_more(
    grader, tmp_path, lacking, first, first_with_all, at_end, at_end_with_all, given
):
    content = leave_out(hand_in("ch01_softmax", {"q5": RIGHT + "right = merge"}))
    answers = [one.replace("not_here", lacking) for one in (first, at_end, first_with_all, at_end_with_all)]
    content = answer_differently(content, "q5", answers)
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q5"] == given, messages(one)["q5"]


def test_a_letter_that_comes_late_counts_once(grader, tmp_path):
    right = load_questions("ch02_linear")["q3"].reference["fault"]
    wrong = next(letter for letter in "ABC" if letter != right)
    values = ["del fault", f"fault = {right!r}", f"fault = {wrong!r}", f"fault = {right!r}"]
    content = answer_differently(notebook("ch02_linear"), "q3", values)
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q3"] == 0, messages(one)


@pytest.mark.parametrize(("version", "noted"), [("0123456789ab", True), (None, False)])
def test_a_notebook_of_another_version_is_noted(grader, tmp_path, version, noted):
    content = leave_out(notebook("ch01_softmax", "exercises"))
    if version:
        content["metadata"]["linattn"]["version"] = version
    note = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"].note
    assert note.startswith(f"Written for version {version}") if noted else note == ""


def test_a_notebook_of_two_sets_is_noted(grader, tmp_path):
    content = notebook("ch05_selection", "exercises")
    content["cells"] += notebook("ch07_four", "exercises")["cells"]
    note = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"].note
    assert note == "A notebook is graded for one set: of ch07_four hand in another."


def test_an_answer_that_needs_what_another_question_has_set(grader, tmp_path):
    content = notebook("ch01_softmax")
    answer_cell(content, "q1")["source"] += "\ntorch.set_default_dtype(torch.float64)\nzero = torch.zeros(3)"
    answer_cell(content, "q5")["source"] = RIGHT.replace(
        "return m, ", "return m + zero.double().sum().item(), "
    )
    assert sum(points(grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]).values()) == TOTAL


def test_a_picture_in_a_text_costs_nothing(tmp_path):
    content = notebook("ch01_softmax")
    before = read(write(tmp_path / "a.ipynb", content))
    text = next(cell for cell in content["cells"] if cell.get("id") == "q5-text")
    text["source"] += "\n![plot](data:image/png;base64," + "A" * 1_200_000 + ")"
    content["cells"].insert(0, {"cell_type": "raw", "metadata": {}, "source": "e" + "\u0301" * 300_000})
    assert read(write(tmp_path / "b.ipynb", content)) == before


def test_names_alone_tell_the_set(grader, tmp_path):
    content = notebook("ch01_softmax")
    content["metadata"] = {}
    for cell in content["cells"]:
        cell["source"] = cell["source"].replace("from linattn_exercises.ch01_softmax import check", "")
    assert sum(points(grade(grader, write(tmp_path / "A.IPYNB", content))["A.IPYNB"]).values()) == TOTAL


def test_a_removed_cell_is_named(grader, tmp_path):
    content = notebook("ch01_softmax")
    content["cells"] = [cell for cell in content["cells"] if not cell["id"].startswith("q2")]
    one = grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q2"] == 0
    assert "no cell defines `fault`, `repaired`" in messages(one)["q2"]
    assert sum(points(one).values()) == TOTAL - 3


def test_a_library_function_in_place_of_an_answer_is_refused(grader, tmp_path):
    softmax = "def online_softmax(q, k, v, tile):\n    return (q @ k.T).softmax(-1) @ v"
    one = grade(grader, write(tmp_path / "a.ipynb", hand_in("ch01_softmax", {"q4": softmax})))["a.ipynb"]
    assert "without `softmax`" in messages(one)["q4"]


def test_the_hint_of_a_known_mistake_reaches_the_student(grader, tmp_path):
    question = load_questions("ch01_softmax")["q4"]
    known = next(one for one in question.known_mistakes if one.label == "starts_at_zero")
    content = hand_in("ch01_softmax", {"q4": source_of(question, known)})
    assert known.hint in messages(grade(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"])["q4"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not a Jupyter notebook"),
        (b"\xff\xfe\x00", "not a Jupyter notebook"),
        (b"[1, 2]", "format 4"),
        (b'{"worksheets": []}', "format 4"),
        (b'{"cells": []}', "does not say which exercises"),
        (
            b'{"cells": [7, {"cell_type": "code", "source": 3}], "metadata": 5}',
            "does not say which exercises",
        ),
        (b"[" * 200_000, "not a Jupyter notebook"),
    ],
)
def test_what_is_no_notebook_of_ours_is_said(content, says, tmp_path, grader):
    (tmp_path / "a.ipynb").write_bytes(content)
    with pytest.raises(UnreadableNotebook, match=says):
        read(tmp_path / "a.ipynb")
    one = grade(grader, tmp_path / "a.ipynb")["a.ipynb"]
    assert [mark.points for mark in one.marks] == [0]
    assert says in one.marks[0].message


def test_a_file_that_is_too_large_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("linattn_exercises.grading.submissions.MAX_BYTES", 100)
    path = write(tmp_path / "a.ipynb", notebook("ch01_softmax"))
    with pytest.raises(UnreadableNotebook, match="larger than"):
        read(path)


def test_with_a_set_given_a_damaged_file_gets_a_row_for_every_question(tmp_path):
    (tmp_path / "essay.docx").write_bytes(b"PK")
    grader = make_grader(tmp_path / "out", default_set="ch01_softmax")
    one = grade(grader, tmp_path / "essay.docx")["essay.docx"]
    assert points(one) == dict.fromkeys(load_questions("ch01_softmax"), 0)
