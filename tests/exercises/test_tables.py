"""What a teacher and a student read: tables and pages that can be opened anywhere and run nothing."""

import csv
import json
import os
from pathlib import Path

from linattn_exercises.grading import GradedSubmission, Mark, find_submissions, tables
from tests.exercises.gradebook import TOTAL, make_grader, write
from tests.exercises.notebooks import hand_in, notebook


def test_pages_have_safe_names_no_two_alike():
    names = ["a/b.ipynb", "a_b.ipynb", "A_B.ipynb", "../../etc/passwd", "ü\n<b>.ipynb", "." * 300, "NUL.x"]
    found = list(tables.name_pages(names).values())
    assert len({name.lower() for name in found}) == len(names)
    assert not any("/" in name or name.startswith(".") or len(name) > 100 for name in found)
    assert not any(name.lower().startswith("nul.") for name in found)


def test_texts_that_cannot_be_written_are_made_writable(tmp_path):
    content = hand_in("ch01_softmax", {"q5": "def merge(a, b):\n    raise ValueError('\\ud800')"})
    content["metadata"]["linattn"]["version"] = "\ud800"
    folder = tmp_path / "in"
    folder.mkdir()
    name = os.fsdecode(b"L\xf6sung.ipynb")
    (folder / name).write_text(json.dumps(content))
    write(folder / f"{'字' * 70}.ipynb", notebook("ch02_linear", "exercises"))
    every, _ = find_submissions([folder])
    results = make_grader(tmp_path / "out").grade(every)
    tables.write(tmp_path / "out", results, str)
    assert len(list((tmp_path / "out" / "feedback").glob("*.html"))) == 2
    assert sum(mark.points for one in results for mark in one.marks) == TOTAL - 3


def write_page(out: Path, name: str) -> str:
    """Write the marks of one submission, and return its page."""
    tables.write(out, [GradedSubmission(name, [Mark(name, "", "", 0, 0, f"for {name}")])], str)
    return json.loads((out / "pages.json").read_text())[name]


def test_no_page_is_an_option_of_a_program(tmp_path):
    assert write_page(tmp_path, "-rf.ipynb") == "_-rf.html"
    assert write_page(tmp_path, "_-rf.ipynb") == "_-rf_2.html"
    names = ["-rf.ipynb", "--rf.ipynb", "_-rf.ipynb", "-rf!.ipynb", "/-RF.ipynb"]
    found = tables.name_pages(names)
    assert len({page.lower() for page in found.values()}) == len(names)
    assert found["_-rf.ipynb"] == "_-rf.html"
    assert not any(page.startswith("-") for page in found.values())


def test_a_page_of_an_earlier_version_that_begins_with_a_dash_is_kept(tmp_path):
    (tmp_path / "pages.json").write_text(json.dumps({"-a.ipynb": "-a.html"}))
    assert write_page(tmp_path, "-a.ipynb") == "-a.html"
    assert write_page(tmp_path, "-a!.ipynb") == "_-a.html"
    assert "for -a.ipynb" in (tmp_path / "feedback" / "-a.html").read_text()


def test_damaged_records_cost_no_page_and_no_run(tmp_path):
    (tmp_path / "names.json").write_text(json.dumps({"\ud800": ["/in/a", "a"], "b": ["/in/b", "b"]}))
    (tmp_path / "pages.json").write_text(json.dumps({"\ud800": "x.html", "a": "a.html", "b": "A.html"}))
    assert list(tables.load_names(tmp_path)) == ["b"]
    assert write_page(tmp_path, "b") == "b.html"
    assert write_page(tmp_path, "a") == "a.html"


MARKS = [
    GradedSubmission("=cmd()|x.ipynb", [Mark("=cmd()|x.ipynb", "ch01_softmax", "q1", 3, 3, "fine\nindeed")]),
    GradedSubmission(
        "b.ipynb", [Mark("b.ipynb", "ch01_softmax", "q2", 0, 3, "<script>alert(1)</script> & more")], "old"
    ),
]


def test_tables_open_in_a_spreadsheet_and_run_nothing(tmp_path):
    tables.write(tmp_path, MARKS, str)
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
    tables.write(tmp_path, MARKS, str)
    page = (tmp_path / "feedback" / "b.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    assert "0 of 3 points" in page
    assert "old" in page
