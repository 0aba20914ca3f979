"""A file has one subject, so it is short."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = 300  # lines


@pytest.mark.check
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git knows which files are ours")
def test_no_source_file_is_long() -> None:
    """Code of all kinds; notebooks, tables and pages may be as long as they need to be."""
    command = ["git", "ls-files", "-z", "*.py", "*.js"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    files = [ROOT / name for name in listed if name and (ROOT / name).is_file()]
    assert ROOT / "tests" / "conftest.py" in files
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text("utf-8").splitlines()) for path in files}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}
