"""Read Python source as a corpus of code: source distributions from the Python package index, pinned by hash.

``code.sha256`` lists them: sha256, folder on the index's file server, file name. A document is a ``.py`` file
of at most ``LONGEST`` bytes that is no test: longer ones are tables more often than programs, and tests
repeat what they test. The packages have licences of their own; they are fetched by the reader, and are no
part of this one.
"""

import hashlib
import re
import tarfile
from importlib import resources
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from tqdm import tqdm

from linattn_ref.training.files import write_atomically
from linattn_ref.training.tasks.documents import Documents

SERVER = "https://files.pythonhosted.org/packages"
LONGEST = 200_000  # bytes of a file
TEST = re.compile(r"(^|/)(tests?|testing|unittests?)/|(^|/)test_[^/]*$|_test\.py$")


class Archive(NamedTuple):
    """Name a source distribution: its hash, its folder on the file server, its file name."""

    sha256: str
    folder: str
    name: str


def list_archives() -> list[Archive]:
    """Return all archives that the corpus is made of, by name."""
    lines = (resources.files(__package__) / "code.sha256").read_text("utf-8").splitlines()
    return [Archive(*line.split()) for line in lines]


def fetch_code(folder: str | Path, server: str = SERVER) -> Path:
    """Download the archives that are not in a folder yet; each is whole or not there, so it can be stopped.

    Args:
        folder: where they go.
        server: the address of the file server.

    Returns:
        The folder.

    Raises:
        ConnectionError: the server cannot be read.
        ValueError: it gave other bytes than were pinned.
    """
    folder = Path(folder)
    missing = [archive for archive in list_archives() if not (folder / archive.name).exists()]
    for archive in tqdm(missing, unit="archive", disable=not missing):
        try:
            with urlopen(f"{server}/{archive.folder}/{archive.name}", timeout=60) as answer:
                content: bytes = answer.read()
        except OSError as error:
            raise ConnectionError(f"server: {archive.name} could not be read: {error}") from error
        _require_pinned(archive, content)
        write_atomically({folder / archive.name: content})
    return folder


def read_code(folder: str | Path) -> Documents:
    """Return every document in the archives of a folder: path, beginning with package and version, -> bytes.

    Args:
        folder: with all archives.

    Raises:
        ValueError: an archive is not there, or is another than was pinned.
    """
    folder, documents = Path(folder), Documents()
    for archive in list_archives():
        file = folder / archive.name
        if not file.is_file():
            raise ValueError(f"folder: {archive.name} is not in {folder}; fetch_code downloads it")
        _require_pinned(archive, file.read_bytes())
        with tarfile.open(file) as members:
            for member in members:
                if _is_wanted(member):
                    content = members.extractfile(member)
                    assert content is not None  # it is a file
                    documents[member.name] = content.read()
    return documents


def _is_wanted(member: tarfile.TarInfo) -> bool:
    """Return whether a member is a document of the corpus."""
    is_source = member.isfile() and member.name.endswith(".py") and 0 < member.size <= LONGEST
    return is_source and not TEST.search(member.name)


def _require_pinned(archive: Archive, content: bytes) -> None:
    """Raise a ``ValueError`` if an archive has other bytes than were pinned."""
    if hashlib.sha256(content).hexdigest() != archive.sha256:
        raise ValueError(f"{archive.name}: sha256 is another than the pinned {archive.sha256[:12]}...")
