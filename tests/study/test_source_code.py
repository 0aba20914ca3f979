"""The corpus of code: which files are read, that archives are the pinned ones, fetched once and whole."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from linattn_study import source_code
from linattn_study.source_code import LONGEST, Archive, fetch_code, list_archives, read_code
from tests.support.server import served

FILES = {
    "a-1/a/__init__.py": b"x = 1\n",
    "a-1/a/contest.py": b"y = 2\n",
    "a-1/a/empty.py": b"",
    "a-1/a/data.txt": b"no code",
    "a-1/a/table.py": b"z" * (LONGEST + 1),
    "a-1/tests/helper.py": b"no",
    "a-1/a/test_a.py": b"no",
    "a-1/a/a_test.py": b"no",
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Pin one archive, and serve it where its pin says."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as out:
        (folder := tarfile.TarInfo("a-1/folder.py")).type = tarfile.DIRTYPE
        out.addfile(folder)
        for name, data in FILES.items():
            (member := tarfile.TarInfo(name)).size = len(data)
            out.addfile(member, io.BytesIO(data))
    there = tmp_path / "served" / "3e" / "47"
    there.mkdir(parents=True)
    (there / "a-1.tar.gz").write_bytes(packed.getvalue())
    pinned = Archive(hashlib.sha256(packed.getvalue()).hexdigest(), "3e/47", "a-1.tar.gz")
    monkeypatch.setattr(source_code, "list_archives", lambda: [pinned])
    with served(tmp_path / "served") as address:
        yield address


def test_sources_are_read_without_tests_and_tables(server: str, tmp_path: Path) -> None:
    documents = read_code(fetch_code(tmp_path / "code", server))
    assert documents == {name: FILES[name] for name in ("a-1/a/__init__.py", "a-1/a/contest.py")}


def test_what_is_there_is_not_fetched_again(server: str, tmp_path: Path) -> None:
    folder = fetch_code(tmp_path / "code", server)
    assert fetch_code(folder, "http://127.0.0.1:1") == folder


def test_what_cannot_be_fetched_is_named(server: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match=r"server: a-1\.tar\.gz could not be read"):
        fetch_code(tmp_path / "code", f"{server}/elsewhere")
    assert not (tmp_path / "code").exists()


def test_other_bytes_than_the_pinned_are_refused(server: str, tmp_path: Path) -> None:
    (tmp_path / "served" / "3e" / "47" / "a-1.tar.gz").write_bytes(b"other")
    with pytest.raises(ValueError, match=r"a-1\.tar\.gz: sha256 is another than the pinned"):
        fetch_code(tmp_path / "code", server)
    assert not (tmp_path / "code").exists()
    (tmp_path / "a-1.tar.gz").write_bytes(b"other")
    with pytest.raises(ValueError, match=r"a-1\.tar\.gz: sha256 is another"):
        read_code(tmp_path)


def test_a_missing_archive_is_named(server: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"folder: a-1\.tar\.gz is not in .*; fetch_code downloads it"):
        read_code(tmp_path)


def test_archives_are_pinned() -> None:
    pinned = list_archives()
    assert len({archive.name for archive in pinned}) == len(pinned) == 46
    assert all(len(archive.sha256) == 64 and archive.name.endswith(".tar.gz") for archive in pinned)
