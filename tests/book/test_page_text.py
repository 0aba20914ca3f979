"""A page shows all that is written in it: no line of prose is taken for a comment."""

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def tracked(*patterns: str) -> list[Path]:
    """Return the files of the repository that match; ``*`` stands for slashes too, as git reads it."""
    command = ["git", "ls-files", "-z", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def prose_lines(path: Path) -> list[str]:
    """Return the lines of a page, or of the markdown cells of a notebook."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return text.splitlines()
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
    return [line for cell in cells for line in "".join(cell["source"]).splitlines()]


@pytest.mark.check
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git knows which files are ours")
def test_no_line_of_a_page_is_taken_for_a_comment() -> None:
    """A line that begins with a percent sign is one in MyST: a wrapped sentence would lose it."""
    pages = tracked("book/*.md", "book/**/*.md", "book/*.ipynb", "chapters/*.ipynb", "exercises/*.ipynb")
    assert ROOT / "book" / "study.ipynb" in pages
    lost = {
        path.relative_to(ROOT).as_posix(): [x for x in prose_lines(path) if x.startswith("%")]
        for path in pages
    }
    assert {name: lines for name, lines in lost.items() if lines} == {}
