"""Read one hundred English novels, 1840 to 1920, as a corpus of prose: ELTeC-eng 1.0.1.

English Novel Corpus (ELTeC-eng), edited by Lou Burnard, in: European Literary Text Collection, COST Action
Distant Reading for European Literary History, version 1.0.1, April 2021, DOI 10.5281/zenodo.4662490. The
texts are in the public domain, their TEI markup is under CC BY 4.0; neither is part of this package.

A novel is a TEI file. Its text is that of the paragraphs, headings and lines of verse in its body, one a
line, with white space collapsed: 63.6 MB in all. One novel is left out by name (``LEFT_OUT``), since our
measurements were made without it; every other file must be there and have the bytes that they had.
"""

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path, PurePosixPath
from urllib.request import urlopen
from xml.etree import ElementTree

from linattn_ref.training.files import write_atomically
from linattn_ref.training.tasks.documents import Documents

RECORD = "https://zenodo.org/api/records/4662490"  # of DOI 10.5281/zenodo.4662490
LEFT_OUT = "ENG18460_Reynolds.xml"
TEI = "{http://www.tei-c.org/ns/1.0}"
LINES = {TEI + name for name in ("p", "head", "l")}


def read_novels(path: str | Path) -> Documents:
    """Return the text of every novel: file name -> bytes.

    Args:
        path: the release's TEI files, in a folder, a ZIP archive or a TAR archive.

    Raises:
        ValueError: nothing there; novels are missing; a file has other bytes than in release 1.0.1.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"path: got {path}, which does not exist, expected the ELTeC-eng release")
    novels = {name: data for name, data in _iterate_files(path) if name in load_known_hashes()}
    missing = sorted(load_known_hashes().keys() - novels.keys())
    if missing:
        named = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise ValueError(
            f"path: {len(missing)} of {len(load_known_hashes())} novels are not in {path}: {named}"
        )
    for name, data in novels.items():
        if hashlib.sha256(data).hexdigest() != load_known_hashes()[name]:
            raise ValueError(f"path: {name} in {path} is not that of ELTeC-eng 1.0.1, its sha256 differs")
    return {name: extract_text(novels[name]) for name in sorted(novels)}


def fetch_novels(path: str | Path, record: str = RECORD) -> Path:
    """Download the release's ZIP archive, unless it is there; whole, or not at all.

    Args:
        path: where it goes.
        record: address of the record that lists it.

    Returns:
        The path.

    Raises:
        ConnectionError: the record or its archive cannot be read.
        ValueError: the record has no ZIP archive.
    """
    path = Path(path)
    if path.exists():
        return path
    try:
        with urlopen(record, timeout=60) as answer:
            files = json.load(answer)["files"]
        archives = [file["links"]["self"] for file in files if file["key"].endswith(".zip")]
        if not archives:
            raise ValueError(f"record: {record} lists no ZIP archive")
        with urlopen(archives[0], timeout=60) as answer:
            content: bytes = answer.read()
    except OSError as error:
        raise ConnectionError(f"record: {record} could not be read: {error}") from error
    write_atomically({path: content})
    return path


def load_known_hashes() -> Mapping[str, str]:
    """Return the novels that are used: file name -> sha256 of its bytes."""
    lines = (resources.files(__package__) / "novels.sha256").read_text("utf-8").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def extract_text(tei: bytes) -> bytes:
    """Return the text in the body of a TEI file, as UTF-8; front and back matter are left out.

    Example:
        >>> extract_text(b'<TEI xmlns="http://www.tei-c.org/ns/1.0"><body><p>A  novel.</p></body></TEI>')
        b'A novel.\\n'
    """
    body = ElementTree.fromstring(tei).find(f".//{TEI}body")
    if body is None:
        raise ValueError("tei: expected a TEI document with a body, got one without")
    lines = (" ".join(line.split()) for line in _iterate_lines(body))
    return "".join(line + "\n" for line in lines if line).encode()


def _iterate_lines(element: ElementTree.Element) -> Iterator[str]:
    """Yield the outermost paragraphs, headings and lines of verse; a verse in a paragraph is a part of it."""
    if element.tag in LINES:
        yield _join_text(element)
        return
    for child in element:
        yield from _iterate_lines(child)


def _join_text(element: ElementTree.Element) -> str:
    """Return the text of an element and all inside it."""
    inside = (element.text or "") + "".join(_join_text(child) + (child.tail or "") for child in element)
    return f" {inside} " if element.tag in LINES else inside


def _iterate_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (name without folders, bytes) of every TEI file; an archive within an archive is not opened."""
    if path.is_dir():
        for file in sorted(path.rglob("*.xml")):
            yield file.name, file.read_bytes()
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield PurePosixPath(name).name, archive.read(name)
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            for member in archive:
                content = archive.extractfile(member) or io.BytesIO()
                yield PurePosixPath(member.name).name, content.read()
    else:
        raise ValueError(f"path: got {path}, expected a folder, a ZIP archive or a TAR archive")
