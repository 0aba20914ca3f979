"""Every set is whole, and everything generated from its master is as the master says."""

import re
import shutil
from pathlib import Path

import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from linattn_book.builders import exercises, masters, notebooks
from linattn_exercises.questions import KINDS
from linattn_exercises.sets import SETS, load_questions
from tests.exercises.notebooks import QUESTIONS, answer_cell, name_of, notebook

ROOT = Path(__file__).parents[2]
MASTERS = masters.read_masters(ROOT)

pytestmark = pytest.mark.check


@pytest.fixture(params=MASTERS, ids=[master.name for master in MASTERS])
def master(request):
    return request.param


@pytest.fixture(params=QUESTIONS, ids=name_of)
def question(request):
    return request.param


def test_everything_generated_is_up_to_date():
    assert exercises.check(ROOT) == []


def test_the_package_knows_every_set():
    assert tuple(master.name for master in MASTERS) == SETS


def test_a_set_has_four_questions_and_every_kind(master):
    assert len(master.questions) >= 4
    assert {one.kind for one in master.questions} == set(KINDS)


def test_a_question_has_five_mistakes_with_a_hint_each(question):
    known = question.known_answers
    hints = [one.hint for one in question.known_mistakes]
    assert len(hints) >= 5
    assert len(set(hints)) == len(hints), "two mistakes share a hint"
    assert len(known) > len(hints), "no right answer written in another way"
    assert {one.name for one in known} <= set(question.reference)


def test_the_notebook_asks_for_what_the_check_takes(master):
    for one in master.questions:
        reference = load_questions(master.name)[one.id].reference
        assert masters.list_asked_names(master.get_text("answer", one.id)) == list(reference)


def test_the_student_gets_no_solution(master):
    text = (ROOT / "exercises" / master.name / f"{master.name}_exercises.ipynb").read_text()
    assert "SOLUTION" not in text
    for one in master.questions:
        cell = answer_cell(notebook(master.name, "exercises"), one.id)["source"]
        assert cell.startswith(f"# Exercise {one.number}: your answer")
        solved = masters.keep_solution(master.get_text("answer", one.id))
        kept = masters.cut_solution(master.get_text("answer", one.id)).splitlines()
        cut = [line.strip() for line in solved.splitlines() if line not in kept and line.strip()]
        assert cut, "the stub is the solution"
        assert not [line for line in cut if line in cell], "a line of the solution is in the stub"


def test_code_of_the_notebooks_fits_the_page(master):
    for one in master.questions:
        code = (
            masters.keep_solution(master.get_text("answer", one.id)) + "\n" + master.get_text("given", one.id)
        )
        assert [line for line in code.splitlines() if len(line) > 76] == []


def test_notebooks_say_which_set_they_are(master):
    for kind in ("exercises", "solutions"):
        metadata = notebook(master.name, kind)["metadata"]["linattn"]
        assert metadata == {"set": master.name, "version": master.version}


def test_a_change_of_the_master_is_noticed(master, tmp_path):
    folder = copy_set(master.name, tmp_path) / "master"
    exercises.write(tmp_path)
    assert not [fault for fault in exercises.check(tmp_path) if "differs" in fault]
    source = (folder / "q1.py").read_text()
    (folder / "q1.py").write_text(source.replace("return", "return  ", 1))
    stale = [fault for fault in exercises.check(tmp_path) if "differs" in fault]
    assert {Path(fault.split(":")[0]).name for fault in stale} >= {
        "check.py",
        f"{master.name}_exercises.ipynb",
        f"{master.name}_solutions.ipynb",
    }


def copy_set(name: str, root: Path) -> Path:
    """Copy what an author writes of a set into an empty repository; return the set's folder."""
    folder = root / "exercises" / name
    for part in ("master", "mistakes"):
        ignored = shutil.ignore_patterns("__init__.py", "__pycache__")
        shutil.copytree(ROOT / "exercises" / name / part, folder / part, ignore=ignored)
    (root / "chapters").mkdir()
    (root / "_config.yml").write_text((ROOT / "_config.yml").read_text())
    return folder


def write_chapter(root: Path, name: str, *cells: str) -> Path:
    """Write a chapter of markdown cells."""
    path = root / "chapters" / name
    notebook = new_notebook(cells=[new_markdown_cell(cell, id=f"own-{n}") for n, cell in enumerate(cells)])
    path.write_text(notebooks.dump_notebook(notebook))
    return path


def exercise_keys(chapter: Path) -> list[str | None]:
    return [cell.metadata.get("exercise") for cell in notebooks.read_notebook(chapter).cells]


def test_a_new_set_needs_nothing_but_its_masters_its_mistakes_and_its_chapter(master, tmp_path):
    folder = copy_set(master.name, tmp_path)
    (page,) = (ROOT / "chapters").glob(f"{master.name[2:4]}_*.ipynb")  # its address is in the notebooks
    chapter = write_chapter(tmp_path, page.name, "# T", "## Exercises", "## Where to read on")
    exercises.write(tmp_path)
    assert exercises.check(tmp_path) == []
    ours = ROOT / "exercises" / master.name
    for path in folder.rglob("*"):
        assert path.is_dir() or path.read_bytes() == (ours / path.relative_to(folder)).read_bytes()
    written = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert written == {
        path.relative_to(ours) for path in ours.rglob("*.*") if path.suffix in (".py", ".ipynb")
    }
    questions = [f"{master.name}/{info.id}" for info in master.questions]
    assert exercise_keys(chapter) == [None, None, *questions, master.name, None]


def test_a_cell_that_was_moved_stays_where_it_is(master, tmp_path):
    copy_set(master.name, tmp_path)
    chapter = write_chapter(tmp_path, f"{master.name[2:4]}_x.ipynb", "# T", "## Exercises")
    exercises.write(tmp_path)
    content = notebooks.read_notebook(chapter)
    content.cells.insert(1, content.cells.pop(3))
    content.cells.pop(1 + len(master.questions))  # the last question
    chapter.write_text(notebooks.dump_notebook(content))
    assert any(chapter.name in fault for fault in exercises.check(tmp_path))
    exercises.write(tmp_path)
    first, second, *others = (f"{master.name}/{info.id}" for info in master.questions)
    assert exercise_keys(chapter) == [None, second, None, first, *others, master.name]


def test_a_set_that_no_chapter_shows_is_told(master, tmp_path):
    copy_set(master.name, tmp_path)
    exercises.write(tmp_path)
    assert any("expected one that shows" in fault for fault in exercises.check(tmp_path))


def test_a_chapter_without_a_place_for_exercises_is_refused(master, tmp_path):
    copy_set(master.name, tmp_path)
    write_chapter(tmp_path, f"{master.name[2:4]}_x.ipynb", "# T")
    with pytest.raises(ValueError, match="expected one, below which exercises are listed"):
        exercises.write(tmp_path)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("# %% nonsense\nx = 1\n", "expected a role"),
        ("# %% [markdown] q1 derive, 3 points, 15 minutes, level 2\n# no title\n", "expected `# ## Title`"),
        ("# %% [markdown] q1 derive, 3 points, 15 minutes, level 2\n# ## A\n# b\n", "no cell `answer`"),
    ],
)
def test_a_master_that_is_not_whole_is_refused(source, says, tmp_path):
    folder = tmp_path / "ch09_x" / "master"
    folder.mkdir(parents=True)
    (folder / "intro.py").write_text("")
    (folder / "q1.py").write_text(source)
    with pytest.raises(ValueError, match=re.escape(says)):
        masters.read_master(folder)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a\nb\n\nc", "a b\n\nc"),
        ("- a\n  b\n- c", "- a b\n- c"),
        ("$$\nx\n= y\n$$\nis\nlong", "$$\nx\n= y\n$$\nis long"),
        ("```python\na\nb\n```", "```python\na\nb\n```"),
        ("| a |\n| - |\n| 1 |", "| a |\n| - |\n| 1 |"),
        ("1. a\n   b\n2. c", "1. a b\n2. c"),
    ],
)
def test_paragraphs_become_one_line_and_the_rest_stays(text, want):
    assert masters.unwrap(text) == want


def test_a_stub_keeps_signature_and_docstring():
    answer = 'x = None\n# BEGIN SOLUTION\nx = 3\n# END SOLUTION\n\n\ndef f(a):\n    """D."""\n'
    answer += "    # BEGIN SOLUTION\n    b = a\n\n    return b\n    # END SOLUTION\n"
    assert (
        masters.cut_solution(answer) == 'x = None\n\n\ndef f(a):\n    """D."""\n    raise NotImplementedError'
    )
    assert masters.keep_solution(answer) == 'x = 3\n\n\ndef f(a):\n    """D."""\n    b = a\n\n    return b'
    assert masters.list_asked_names(answer) == ["x", "f"]
