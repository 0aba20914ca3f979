"""The hash of what measured a result: it sees every change of code and no other."""

import re
from pathlib import Path

import pytest

from linattn_book import results


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "ops").mkdir()
    for name in ("a.py", "ops/b.py", "ops/notes.txt"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_the_source_hash_does_not_depend_on_place_or_order(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = results.source_hash([tree / "ops", tree / "a.py"])
    monkeypatch.chdir(tree)
    assert results.source_hash(["a.py", "ops"]) == here
    assert re.fullmatch("[0-9a-f]{64}", here)


def test_the_source_hash_sees_names_and_code_of_python_files_alone(tree: Path) -> None:
    before = results.source_hash([tree / "ops"])
    (tree / "ops/notes.txt").write_text("changed")
    assert results.source_hash([tree / "ops"]) == before
    (tree / "ops/b.py").write_text("changed")
    changed = results.source_hash([tree / "ops"])
    (tree / "ops/b.py").rename(tree / "ops/c.py")
    assert len({before, changed, results.source_hash([tree / "ops"])}) == 3


CODE = '''"""A module."""
import math as m  # a comment

class Wave:
    """A class."""
    speed: float = 2.0
    """Of one attribute."""

    def at(self, x, *, names=(), **rest):
        """A method."""
        return f"{m.sin(self.speed * x)!r:>{len(names)}} \u00b5 {x=}", [None, *names, -1e-3], {**rest}
'''
REFORMATTED = """import math as m
class Wave:

    speed: float = 2.
    def at(
        self, x, *, names=(), **rest
    ):
        "Other words."
        return (f'{m.sin(self.speed * x)!r:>{len(names)}} µ {x=}', [None, *names, -0.001], {**rest},)
"""


def hash_of(directory: Path, code: str) -> str:
    (directory / "code.py").write_text(code, "utf-8")
    return results.source_hash([directory / "code.py"])


def test_the_source_hash_ignores_docstrings_comments_and_layout(tmp_path: Path) -> None:
    assert hash_of(tmp_path, CODE) == hash_of(tmp_path, REFORMATTED)


CHANGES = [("2.0", "2"), ("sin", "cos"), ("!r", "!s"), ("=()", "=None"), ("[None, ", "["), ("x, *,", "x,")]


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_the_source_hash_sees_every_change_of_code(tmp_path: Path, old: str, new: str) -> None:
    assert old in CODE
    assert hash_of(tmp_path, CODE) != hash_of(tmp_path, CODE.replace(old, new))


def test_the_source_hash_is_the_same_in_every_python(tmp_path: Path) -> None:
    assert hash_of(tmp_path, CODE) == "edf5bdebe739db14dfe2d6cba99c00b7aba3f41690d7f278b05f8ca9c0d00ab0"


def test_a_source_hash_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="paths: got"):
        results.source_hash([tmp_path])
