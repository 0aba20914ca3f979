"""What is installed is what is here."""

from importlib.metadata import entry_points
from pathlib import Path

import pytest
from setuptools import find_packages

ROOT = Path(__file__).parents[2]
ROOMS = ("linattn_ref", "kernels/linattn_kernels", "study/linattn_study", "book/linattn_book", "exercises")


@pytest.mark.parametrize("room", [*ROOMS, "benchmarks/linattn_benchmarks"])
def test_every_folder_with_modules_is_a_package(room: str) -> None:
    """A folder without ``__init__.py`` is missing from the wheel alone, where nobody looks."""
    folder = ROOT / room
    modules = {path.parent.relative_to(folder) for path in folder.rglob("*.py")}
    packages = {Path(*name.split(".")) for name in find_packages(str(folder))} | {Path()}
    assert {path for path in modules - packages if path.name != "master"} == set()


@pytest.mark.parametrize("entry", entry_points(group="linattn.commands"), ids=lambda entry: entry.name)
def test_every_command_can_be_loaded(entry) -> None:
    assert callable(entry.load())
