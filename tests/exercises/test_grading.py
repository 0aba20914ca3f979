"""What a teacher gives and gets: files, folders, seeds, tables, feedback; what is said about bad input."""

import csv
import json
import os
import stat
from pathlib import Path

import pytest
from submitted import answer_cell, handed_in, notebook, source_of

from linattn_exercises.grading import Grader, Limits, tables
from linattn_exercises.grading.marks import Graded, Mark, entries, questions
from linattn_exercises.grading.submissions import Unreadable, read
from linattn_ref.cli import main

NAMES = {
    name: {key: q.about.id for q in questions(name).values() for key in q.reference}
    for name in ("ch01_softmax", "ch02_linear")
}
TOTAL = sum(question.about.points for question in questions("ch01_softmax").values())


@pytest.fixture(scope="module")
def grader(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return Grader(out, seed="s", limits=Limits(cpu=2, wall=20), jobs=1)


def write(path: Path, content: dict) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def graded(grader: Grader, *paths: Path) -> dict[str, Graded]:
    every, _ = entries(paths)
    return {one.name: one for one in grader.grade(every, lambda one, kept: None)}


def points(one: Graded) -> dict[str, int]:
    return {mark.question: mark.points for mark in one.marks}


def messages(one: Graded) -> dict[str, str]:
    return {mark.question: mark.message for mark in one.marks}


# --- notebooks as they come ------------------------------------------------------------------------------


def test_all_right(grader, tmp_path):
    one = graded(grader, write(tmp_path / "a.ipynb", notebook("ch01_softmax")))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL


def test_nothing_answered(grader, tmp_path):
    one = graded(grader, write(tmp_path / "a.ipynb", notebook("ch01_softmax", "student")))["a.ipynb"]
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
    one = graded(grader, write(tmp_path / "work of mine (2).ipynb", content))["work of mine (2).ipynb"]
    assert sum(points(one).values()) == TOTAL


def test_helpers_may_stand_anywhere(grader, tmp_path):
    """A helper in a shared cell, one in a cell of its own question, one in the cell of another question."""
    content = notebook("ch01_softmax")
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
    one = graded(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL, messages(one)


def test_magics_and_failing_cells_do_no_harm(grader, tmp_path):
    content = notebook("ch01_softmax")
    for source in ("%matplotlib inline\n1 / 0", "!ls", "%%bash\nls", "display(3)\nundefined"):
        content["cells"].insert(3, {"cell_type": "code", "metadata": {}, "source": source})
    one = graded(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL


def test_an_answer_that_crashes_costs_one_question(grader, tmp_path):
    content = handed_in("ch01_softmax", {"q3": "def cache_bytes(config, tokens, batch:\n    return 1"})
    one = graded(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one) == {**{q: questions("ch01_softmax")[q].about.points for q in points(one)}, "q3": 0}
    assert "SyntaxError" in messages(one)["q3"]


RIGHT = "def merge(a, b):\n    m = max(a[0], b[0])\n    if m == -math.inf:\n        return a\n"
RIGHT += "    f, g = math.exp(a[0] - m), math.exp(b[0] - m)\n"
RIGHT += "    return m, f * a[1] + g * b[1], f * a[2] + g * b[2]\n"


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
    ],
    ids=["timed", "name used again", "slow", "import", "help", "checked too early", "assigned"],
)
def test_a_right_answer_in_an_unusual_cell_is_right(grader, tmp_path, source):
    one = graded(grader, write(tmp_path / "a.ipynb", handed_in("ch01_softmax", {"q5": source})))["a.ipynb"]
    assert sum(points(one).values()) == TOTAL, messages(one)["q5"]


def test_all_answers_in_one_cell(grader, tmp_path):
    content = notebook("ch01_softmax")
    every = "\n\n".join(cell["source"] for cell in content["cells"] if cell["cell_type"] == "code")
    content["cells"] = [{"cell_type": "code", "metadata": {}, "source": every}]
    assert sum(points(graded(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]).values()) == TOTAL


def test_an_answer_above_the_stub_that_was_left(grader, tmp_path):
    content = notebook("ch01_softmax", "student")
    cell = {"cell_type": "code", "metadata": {}, "source": RIGHT}
    content["cells"].insert(content["cells"].index(answer_cell(content, "q5")), cell)
    assert points(graded(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"])["q5"] == 3


def test_an_answer_that_needs_what_another_question_has_set(grader, tmp_path):
    content = notebook("ch01_softmax")
    answer_cell(content, "q1")["source"] += "\ntorch.set_default_dtype(torch.float64)\nzero = torch.zeros(3)"
    answer_cell(content, "q5")["source"] = RIGHT.replace(
        "return m, ", "return m + zero.double().sum().item(), "
    )
    assert sum(points(graded(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]).values()) == TOTAL


def test_names_alone_tell_the_set(grader, tmp_path):
    content = notebook("ch01_softmax")
    content["metadata"] = {}
    for cell in content["cells"]:
        cell["source"] = cell["source"].replace("from linattn_exercises.ch01_softmax import check", "")
    assert sum(points(graded(grader, write(tmp_path / "A.IPYNB", content))["A.IPYNB"]).values()) == TOTAL


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("def online_softmax(q, k, v, tile):\n    return (q @ k.T).softmax(-1) @ v", False),
        ("f = torch.nn.Softmax(-1)\ndef online_softmax(q, k, v, tile):\n    return f(q @ k.T) @ v", False),
        ("from torch import softmax as s\ndef online_softmax(q, k, v, tile):\n    return s(q, -1)", False),
        (
            "def softmax(x):\n    return torch.softmax(x, 0)\n"
            "def online_softmax(q, k, v, tile):\n    return softmax(q)",
            False,
        ),
        ("def online_softmax(q, k, v, tile):\n    logsumexp = softmax_scale = 1\n    return logsumexp", True),
        ("def online_softmax(q, k, v, tile):\n    return q\nprint(torch.softmax(torch.ones(3), 0))", True),
    ],
)  # fmt: skip
def test_what_an_answer_may_use(source, allowed):
    found = questions("ch01_softmax")["q4"].forbidden([source])
    assert bool(found) is not allowed
    if allowed is False:
        assert "oftmax`" in found


def test_a_removed_cell_is_named(grader, tmp_path):
    content = notebook("ch01_softmax")
    content["cells"] = [cell for cell in content["cells"] if not cell["id"].startswith("q2")]
    one = graded(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"]
    assert points(one)["q2"] == 0
    assert "no cell defines `fault`, `repaired`" in messages(one)["q2"]
    assert sum(points(one).values()) == TOTAL - 3


def test_a_library_function_in_place_of_an_answer_is_refused(grader, tmp_path):
    softmax = "def online_softmax(q, k, v, tile):\n    return (q @ k.T).softmax(-1) @ v"
    one = graded(grader, write(tmp_path / "a.ipynb", handed_in("ch01_softmax", {"q4": softmax})))["a.ipynb"]
    assert "without `softmax`" in messages(one)["q4"]


def test_the_hint_of_a_planted_mistake_reaches_the_student(grader, tmp_path):
    planted = next(one for one in questions("ch01_softmax")["q4"].planted() if one.label == "starts_at_zero")
    content = handed_in("ch01_softmax", {"q4": source_of(planted)})
    assert planted.hint in messages(graded(grader, write(tmp_path / "a.ipynb", content))["a.ipynb"])["q4"]


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
    with pytest.raises(Unreadable, match=says):
        read(tmp_path / "a.ipynb", NAMES)
    one = graded(grader, tmp_path / "a.ipynb")["a.ipynb"]
    assert [mark.points for mark in one.marks] == [0]
    assert says in one.marks[0].message


def test_with_a_set_given_a_damaged_file_gets_a_row_for_every_question(tmp_path):
    (tmp_path / "essay.docx").write_bytes(b"PK")
    grader = Grader(tmp_path / "out", seed="s", jobs=1, default="ch01_softmax")
    one = graded(grader, tmp_path / "essay.docx")["essay.docx"]
    assert points(one) == dict.fromkeys(questions("ch01_softmax"), 0)


def test_a_file_that_cannot_be_read_is_said(grader, tmp_path):
    (tmp_path / "a.ipynb").symlink_to(tmp_path / "nowhere")
    found, _ = entries([tmp_path])
    assert found == []
    with pytest.raises(ValueError, match="does not exist"):
        entries([tmp_path / "a.ipynb"])


# --- names -------------------------------------------------------------------------------------------------


def test_submissions_go_by_their_path_in_the_folder(tmp_path):
    for name in ("x/a.ipynb", "y/a.ipynb", "y/.ipynb_checkpoints/a.ipynb", "y/notes.pdf", ".hidden.ipynb"):
        write(tmp_path / name, {})
    every, left_out = entries([tmp_path])
    assert [entry.name for entry in every] == ["x/a.ipynb", "y/a.ipynb"]
    assert [path.name for path in left_out] == ["notes.pdf"]
    alike, _ = entries([tmp_path / "x/a.ipynb", tmp_path / "y/a.ipynb"])
    assert len({entry.name for entry in alike}) == 2


def test_pages_have_safe_names_no_two_alike():
    names = ["a/b.ipynb", "a_b.ipynb", "A_B.ipynb", "../../etc/passwd", "ü\n<b>.ipynb", "." * 300]
    found = tables.pages(names)
    assert len({name.lower() for name in found}) == len(names)
    assert not any("/" in name or name.startswith(".") or len(name) > 100 for name in found)


# --- seeds, runs, tables -----------------------------------------------------------------------------------


def test_a_seed_is_drawn_once_and_kept(tmp_path):
    first = Grader(tmp_path / "out", jobs=1)
    assert Grader(tmp_path / "out", jobs=1).seed == first.seed
    assert Grader(tmp_path / "other", jobs=1).seed != first.seed
    assert "chosen" not in (tmp_path / "out" / "run.json").read_text()
    assert Grader(tmp_path / "out", seed="chosen", jobs=1).seed == "chosen"


def test_only_what_changed_is_graded_again(tmp_path):
    a = write(tmp_path / "in/a.ipynb", notebook("ch01_softmax", "student"))
    write(tmp_path / "in/b.ipynb", notebook("ch02_linear", "student"))
    told: list[tuple[str, bool]] = []

    def run(seed="s"):
        told.clear()
        grader = Grader(tmp_path / "out", seed=seed, jobs=2, limits=Limits(cpu=2))
        grader.grade(entries([tmp_path / "in"])[0], lambda one, kept: told.append((one.name, kept)))
        return sorted(told)

    assert run() == [("a.ipynb", False), ("b.ipynb", False)]
    assert run() == [("a.ipynb", True), ("b.ipynb", True)]
    write(a, notebook("ch01_softmax"))
    assert run() == [("a.ipynb", False), ("b.ipynb", True)]
    for path in (tmp_path / "out" / "kept").glob("*.json"):
        path.write_text("{")  # as a full disk might leave it
    assert run() == [("a.ipynb", False), ("b.ipynb", False)]
    assert run("another") == [("a.ipynb", False), ("b.ipynb", False)]


def test_a_fault_of_the_grader_is_told_and_not_kept(tmp_path, monkeypatch):
    path = write(tmp_path / "a.ipynb", notebook("ch01_softmax"))
    grader = Grader(tmp_path / "out", seed="s", jobs=1)
    monkeypatch.setattr(grader, "_verdict", lambda *_: 1 / 0)
    one = graded(grader, path)["a.ipynb"]
    assert one.fault
    assert "Could not be graded" in one.marks[0].message
    assert not list((tmp_path / "out" / "kept").glob("*.json"))


def test_a_run_that_is_stopped_keeps_nothing_that_was_not_finished(tmp_path):
    for number in range(3):
        write(tmp_path / f"in/{number}.ipynb", notebook("ch01_softmax"))
    every, _ = entries([tmp_path / "in"])

    def interrupt(one: Graded, kept: bool) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Grader(tmp_path / "out", seed="s", jobs=2).grade(every, interrupt)
    results = Grader(tmp_path / "out", seed="s", jobs=2).grade(every, lambda one, kept: None)
    assert [sum(points(one).values()) for one in results] == [TOTAL] * 3


def test_texts_that_cannot_be_written_are_made_writable(tmp_path):
    content = handed_in("ch01_softmax", {"q5": "def merge(a, b):\n    raise ValueError('\\ud800')"})
    content["metadata"]["linattn"]["version"] = "\ud800"
    folder = tmp_path / "in"
    folder.mkdir()
    name = os.fsdecode(b"L\xf6sung.ipynb")
    (folder / name).write_text(json.dumps(content))
    write(folder / f"{'字' * 70}.ipynb", notebook("ch02_linear", "student"))
    every, _ = entries([folder])
    results = Grader(tmp_path / "out", seed="s", jobs=1).grade(every, lambda one, kept: None)
    tables.write(tmp_path / "out", results)
    assert len(list((tmp_path / "out" / "feedback").glob("*.html"))) == 2
    assert sum(mark.points for one in results for mark in one.marks) == TOTAL - 3


def test_nobody_gets_the_marks_of_another_of_the_same_name(tmp_path):
    for name in ("d1/a.ipynb", "d1/d2/a.ipynb", "d2/a.ipynb"):
        write(tmp_path / name, {})
    every, _ = entries([tmp_path / "d1", tmp_path / "d2", tmp_path / "d1/d2"])
    assert len({entry.name for entry in every}) == len(every)
    assert {entry.path for entry in every} == set(tmp_path.rglob("*.ipynb"))


MARKS = [
    Graded("=cmd()|x.ipynb", [Mark("=cmd()|x.ipynb", "ch01_softmax", "q1", 3, 3, "fine\nindeed")]),
    Graded(
        "b.ipynb", [Mark("b.ipynb", "ch01_softmax", "q2", 0, 3, "<script>alert(1)</script> & more")], "old"
    ),
]


def test_tables_open_in_a_spreadsheet_and_run_nothing(tmp_path):
    tables.write(tmp_path, MARKS)
    rows = list(csv.reader((tmp_path / "marks.csv").read_text().splitlines()))
    assert rows[0] == ["submission", "chapter", "question", "points", "max_points", "message"]
    assert rows[1] == ["'=cmd()|x.ipynb", "ch01_softmax", "q1", "3", "3", "fine indeed"]
    assert json.loads((tmp_path / "marks.json").read_text())[1]["message"].startswith("<script>")
    totals = list(csv.reader((tmp_path / "totals.csv").read_text().splitlines()))
    assert totals[1:] == [
        ["'=cmd()|x.ipynb", "ch01_softmax", "3", "3"],
        ["b.ipynb", "ch01_softmax", "0", "3"],
    ]


def test_feedback_shows_what_a_submission_says_and_runs_nothing(tmp_path):
    tables.write(tmp_path, MARKS)
    page = (tmp_path / "feedback" / "b.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    assert "0 of 3 points" in page
    assert "old" in page


# --- the command -----------------------------------------------------------------------------------------


def test_the_command_grades_a_folder(tmp_path, capsys):
    write(tmp_path / "in/a.ipynb", notebook("ch02_linear"))
    (tmp_path / "in/notes.txt").write_text("x")
    (tmp_path / "seed").write_text("a secret\n")
    out = str(tmp_path / "out")
    assert main(["grade", str(tmp_path / "in"), "--out", out, "--seed-file", str(tmp_path / "seed")]) == 0
    said = capsys.readouterr().out
    assert "1 graded, 0 as before" in said
    assert "left out, no notebook" in said
    for path in (tmp_path / "out").rglob("*"):
        assert "a secret" not in (path.read_text() if path.is_file() else "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{nowhere}"], "does not exist"),
        (["{empty}"], "no notebook"),
        (["{empty}", "--set", "ch99"], "no notebook"),
        (["{one}", "--set", "ch99"], "set: got 'ch99', expected one of ch01_softmax, ch02_linear"),
        (["{one}", "--jobs", "-1"], "jobs: got -1"),
        (["{one}", "--cpu", "0"], "cpu: got 0"),
        (["{one}", "--seed-file", "{nowhere}"], "nowhere"),
        (["{one}", "--seed-file", "{blank}"], "empty first line"),
    ],
)
def test_a_wrong_argument_is_named(arguments, says, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank").write_text("\n")
    one = write(tmp_path / "one.ipynb", notebook("ch01_softmax"))
    names = {name: tmp_path / name for name in ("nowhere", "empty", "blank")} | {"one": one}
    words = [word.format(**names) for word in arguments]
    assert main(["grade", *words, "--out", str(tmp_path / "out")]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path, capsys):
    one = write(tmp_path / "one.ipynb", notebook("ch01_softmax"))
    (tmp_path / "out").mkdir(mode=stat.S_IRUSR)
    assert main(["grade", str(one), "--out", str(tmp_path / "out")]) == 2
    assert "out" in capsys.readouterr().err
