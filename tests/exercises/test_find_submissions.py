"""Which files are graded, and the name that each goes by."""

import unicodedata
from pathlib import Path

import pytest

from linattn_exercises.grading import find_submissions
from linattn_exercises.grading.submissions import Origin, name_files
from tests.exercises.gradebook import write


def test_submissions_go_by_their_path_in_the_folder(tmp_path):
    for name in ("x/a.ipynb", "y/a.ipynb", "y/.ipynb_checkpoints/a.ipynb", "y/notes.pdf", ".hidden.ipynb"):
        write(tmp_path / name, {})
    every, left_out = find_submissions([tmp_path])
    assert [entry.name for entry in every] == ["x/a.ipynb", "y/a.ipynb"]
    assert [path.name for path in left_out] == ["notes.pdf"]
    alike, _ = find_submissions([tmp_path / "x/a.ipynb", tmp_path / "y/a.ipynb"])
    assert [entry.name for entry in alike] == [f"{tmp_path.as_posix()}/{x}/a.ipynb" for x in "xy"]


def test_nobody_gets_the_marks_of_another_of_the_same_name(tmp_path):
    for name in ("d1/a.ipynb", "d1/d2/a.ipynb", "d2/a.ipynb"):
        write(tmp_path / name, {})
    every, _ = find_submissions([tmp_path / "d1", tmp_path / "d2", tmp_path / "d1/d2"])
    assert len({entry.name for entry in every}) == len(every)
    assert {entry.path for entry in every} == set(tmp_path.rglob("*.ipynb"))


def test_a_file_that_cannot_be_read_is_said(tmp_path):
    (tmp_path / "a.ipynb").symlink_to(tmp_path / "nowhere")
    found, _ = find_submissions([tmp_path])
    assert found == []
    with pytest.raises(ValueError, match="does not exist"):
        find_submissions([tmp_path / "a.ipynb"])


DECOMPOSED = unicodedata.normalize("NFD", "Zo\u00eb.ipynb")


@pytest.mark.parametrize("first", [DECOMPOSED, "Max  M.ipynb", " ada.ipynb", "ad\u034fa.ipynb"])
@pytest.mark.parametrize("moved", [False, True])
def test_a_name_that_was_given_stays_with_its_file(first, moved):
    before = name_files([(first, Path("in", first))])
    (label,) = known = {file.name: file.origin for file in before}
    folder = Path("later" if moved else "in")
    now = name_files([(name, folder / name) for name in (label, first)], known)
    assert {file.given: file.name for file in now} == {first: label, label: f"{label} (2)"}


def test_a_file_more_renames_nobody_and_takes_no_name():
    first = [("a.ipynb", Path("x/a.ipynb")), ("b.ipynb", Path("y/b.ipynb"))]
    known = {file.name: file.origin for file in name_files(first)}
    more = name_files([("a.ipynb", Path("y/a.ipynb")), *first], known)
    assert [file.name for file in more] == ["y/a.ipynb", "a.ipynb", "b.ipynb"]


def test_a_file_that_is_given_twice_has_one_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "s2/a.ipynb", {})
    write(tmp_path / "s1/b.ipynb", {})
    ways = [Path("s2"), tmp_path / "s2", Path("s1/../s2"), Path("s1")]
    assert [file.name for file in find_submissions(ways)[0]] == ["a.ipynb", "b.ipynb"]


def test_a_name_stays_with_a_file_that_is_still_there(tmp_path):
    monday, tuesday = (write(tmp_path / day / "a.ipynb", {}) for day in ("mon", "tue"))
    known = {file.name: file.origin for file in name_files([("a.ipynb", monday)])}
    (other,) = name_files([("a.ipynb", tuesday)], known)
    assert other.name == "a.ipynb (2)"
    monday.unlink()
    (moved,) = name_files([("a.ipynb", tuesday)], known)
    assert moved.name == "a.ipynb"


def test_nobody_gets_the_name_of_who_hands_in_nothing_now():
    known = {"Max M.ipynb": Origin("/in/Max  M.ipynb", "Max  M.ipynb")}
    (file,) = name_files([("Max M.ipynb", Path("in/Max M.ipynb"))], known)
    assert file.name == "Max M.ipynb (2)"
