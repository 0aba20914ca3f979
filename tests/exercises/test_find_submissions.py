"""Which files are graded, and the name that each goes by."""

import pytest

from linattn_exercises.grading import find_submissions
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
