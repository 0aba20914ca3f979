"""What is installed is what is here."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = {"linattn_ref": "linattn_ref", "linattn_exercises": "exercises"}


def test_every_package_is_installed() -> None:
    """A folder that is forgotten is missing from the wheel alone, where nobody looks."""
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    for name, folder in FOLDERS.items():
        here = {path.parent.relative_to(ROOT / folder).parts for path in (ROOT / folder).rglob("__init__.py")}
        assert {".".join((name, *parts)) for parts in here} <= listed
