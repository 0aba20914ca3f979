"""The build's plotly.js: the part that the book draws with if npm gives it, else all of it."""

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import plotly
import pytest

from linattn_book.builders import pages

WHOLE = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes()


def give(content: bytes) -> Any:
    """Return a stand-in for npm that packs a file of this content."""

    def pack(command: list[str], **options: Any) -> None:
        with tarfile.open(Path(command[-1], "package.tgz"), "w:gz") as archive:
            member = tarfile.TarInfo(f"package/{pages._PLOTLY_FILE}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))

    return pack


def test_the_part_is_written_if_it_is_the_known_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(subprocess, "run", give(b"a part"))
    pages.write_plotly(tmp_path / "plotly.js")
    assert (tmp_path / "plotly.js").read_bytes() == WHOLE
    monkeypatch.setattr(pages, "_PLOTLY_SHA256", hashlib.sha256(b"a part").hexdigest())
    pages.write_plotly(tmp_path / "plotly.js")
    assert (tmp_path / "plotly.js").read_bytes() == b"a part"


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError("npm"), subprocess.TimeoutExpired("npm", 60), subprocess.CalledProcessError(1, "npm")],
)
def test_without_npm_or_its_registry_all_of_it_is_written(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    pages.write_plotly(tmp_path / "plotly.js")
    assert (tmp_path / "plotly.js").read_bytes() == WHOLE
