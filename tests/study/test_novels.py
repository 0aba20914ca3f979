"""The corpus of novels: what is read of a TEI file, from which containers, and that no other file passes."""

import hashlib
import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from linattn_study import novels
from linattn_study.novels import LEFT_OUT, extract_text, fetch_novels, load_known_hashes, read_novels
from tests.support.server import served

BODY = """<head>CHAPTER  I.</head>
<p>It was <hi>a bright</hi>
   May&#160;morning; <l>Sweet day,</l><l>so cool</l> he said.</p>
<pb n="2"/><div><quote><l>One line,</l><l>another &amp; more.</l></quote><p> </p></div>"""
TEXT = "CHAPTER I.\nIt was a bright May morning; Sweet day, so cool he said.\nOne line,\nanother & more.\n"


def tei(body: str) -> bytes:
    """Return a TEI document with this body."""
    front = "<front><p>A preface.</p></front>"
    return (
        '<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><p>About.</p></teiHeader>'
        f"<text>{front}<body>{body}</body><back><p>Notes.</p></back></text></TEI>"
    ).encode()


FILES = {"ENG1_A.xml": tei(BODY), "ENG2_B.xml": tei("<p>Two.</p>")}


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with two novels, the one that is left out, and what is no novel."""
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    monkeypatch.setattr(novels, "load_known_hashes", lambda: hashes)
    folder = tmp_path / "release" / "level1"
    folder.mkdir(parents=True)
    for name, data in (FILES | {LEFT_OUT: tei("<p>No.</p>"), "schema.xml": b"<a/>"}).items():
        (folder / name).write_bytes(data)
    return folder.parent


def zipped(folder: Path) -> Path:
    """Return a folder's files as a ZIP archive beside it."""
    archive = folder.parent / "release.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for file in sorted(folder.rglob("*.xml")):
            out.write(file, file.relative_to(folder.parent))
    return archive


def tarred(folder: Path) -> Path:
    """Return a folder as a TAR archive beside it."""
    archive = folder.parent / "release.tar.xz"
    with tarfile.open(archive, "w:xz") as out:
        out.add(folder, "release")
    return archive


@pytest.fixture
def record(release: Path) -> Iterator[str]:
    """Serve the archive, and a record that names it, as the repository of the novels does."""
    archive = zipped(release)
    with served(archive.parent) as address:
        files = [{"key": "a.zip", "links": {"self": f"{address}/{archive.name}"}}]
        (archive.parent / "record").write_text(json.dumps({"files": files}))
        (archive.parent / "empty").write_text(json.dumps({"files": []}))
        yield address


def test_the_text_is_what_one_reads_in_the_body() -> None:
    assert extract_text(tei(BODY)).decode() == TEXT


def test_a_file_without_a_body_is_refused() -> None:
    with pytest.raises(ValueError, match="tei: expected a TEI document with a body"):
        extract_text(b"<TEI/>")


@pytest.mark.parametrize("packed", [lambda folder: folder, zipped, tarred], ids=["folder", "zip", "tar"])
def test_novels_come_from_a_folder_or_an_archive(release: Path, packed) -> None:
    assert read_novels(packed(release)) == {"ENG1_A.xml": TEXT.encode(), "ENG2_B.xml": b"Two.\n"}


def test_another_edition_is_refused(release: Path) -> None:
    (release / "level1" / "ENG2_B.xml").write_bytes(tei("<p>Two!</p>"))
    with pytest.raises(ValueError, match=r"path: ENG2_B\.xml .* not that of ELTeC-eng 1\.0\.1"):
        read_novels(release)


def test_missing_novels_are_counted_and_named(release: Path) -> None:
    (release / "level1" / "ENG1_A.xml").unlink()
    with pytest.raises(ValueError, match=r"path: 1 of 2 novels are not in .*: ENG1_A\.xml"):
        read_novels(release)


def test_what_is_no_release_is_refused(release: Path) -> None:
    with pytest.raises(ValueError, match="which does not exist"):
        read_novels(release / "nowhere")
    with pytest.raises(ValueError, match="expected a folder, a ZIP archive or a TAR archive"):
        read_novels(release / "level1" / "schema.xml")


def test_the_release_is_fetched_once(release: Path, record: str, tmp_path: Path) -> None:
    there = fetch_novels(tmp_path / "cache" / "novels.zip", f"{record}/record")
    assert read_novels(there).keys() == FILES.keys()
    assert fetch_novels(there, "http://127.0.0.1:1/nobody") == there


def test_what_cannot_be_fetched_leaves_no_file(record: str, tmp_path: Path) -> None:
    target = tmp_path / "cache" / "novels.zip"
    with pytest.raises(ConnectionError, match=r"record: .* could not be read"):
        fetch_novels(target, f"{record}/nothing")
    with pytest.raises(ValueError, match="lists no ZIP archive"):
        fetch_novels(target, f"{record}/empty")
    assert not target.exists()


def test_ninety_nine_novels_are_known() -> None:
    assert len(load_known_hashes()) == 99
    assert LEFT_OUT not in load_known_hashes()
    assert all(len(digest) == 64 for digest in load_known_hashes().values())
