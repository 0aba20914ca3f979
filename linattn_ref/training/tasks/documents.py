"""Choose text: read named byte strings, drop copies, take a part, split by name. Nothing here is random.

A corpus is a mapping ``name -> bytes``. Every choice is made by a hash of the *name*: as good as random, the
same on every machine, and independent of which other documents are there.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Documents = dict[str, bytes]

_NOT_LIBRARY = {"site-packages", "dist-packages", "__pycache__"}  # installed packages, caches
_TEST_FOLDERS = {"test", "tests", "idle_test"}


def read_folder(
    root: Path, pattern: str, wanted: Callable[[Path], bool] = lambda relative: True
) -> Documents:
    """Read the files under a folder: relative posix path -> bytes, sorted by path.

    Args:
        root: the folder.
        pattern: of file names, at any depth, such as ``"*.txt"``.
        wanted: says of a path relative to ``root`` whether it is read.
    """
    found = {path.relative_to(root): path for path in root.rglob(pattern) if path.is_file()}
    kept = sorted((relative.as_posix(), path) for relative, path in found.items() if wanted(relative))
    return {relative: path.read_bytes() for relative, path in kept}


def is_library_source(relative: Path) -> bool:
    """Return whether a path, relative to the standard library's folder, is library source and no test.

    ``_sysconfigdata*`` and ``config-*`` do not count: they record how one interpreter was built, with the
    paths of that machine.

    Example:
        >>> is_library_source(Path("json/decoder.py")), is_library_source(Path("json/tests/a.py"))
        (True, False)
    """
    folders, first = set(relative.parts[:-1]), relative.parts[0]
    machine = relative.name.startswith("_sysconfigdata") or first.startswith("config-")
    return not machine and not folders & (_NOT_LIBRARY | _TEST_FOLDERS)


def fetch_hugging_face_rows(name: str, subset: str | None, split: str, *, streaming: bool) -> Iterable[Any]:
    """Return the rows of a hub dataset, each a mapping column -> value.

    Raises:
        ImportError: the package ``datasets`` is not installed.
    """
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise ImportError(
            "from_hugging_face needs the package datasets: pip install datasets "
            "(python_stdlib() and from_path() need neither it nor a network)"
        ) from error
    rows: Iterable[Any] = load_dataset(name, subset, split=split, streaming=streaming)
    return rows


def read_rows(rows: Iterable[Any], split: str, column: str, max_bytes: float) -> Documents:
    """Read rows as ``"split[index]" -> bytes`` (UTF-8), up to ``max_bytes``; the last row is cut.

    Raises:
        ValueError: a row has no such column, or something other than a string in it.
    """
    documents: Documents = {}
    left = max_bytes
    for index, row in enumerate(rows):
        if column not in row:
            raise ValueError(f"column: got {column!r}, expected one of {sorted(row)}")
        if not isinstance(row[column], str):
            came = f"{type(row[column]).__name__} in row {index}"
            raise ValueError(f"column: got {came}, expected text in {column!r}")
        data = row[column].encode()
        documents[f"{split}[{index}]"] = data if len(data) <= left else data[: int(left)]
        left -= len(data)
        if left <= 0:
            break
    return documents


def drop_copies(documents: Mapping[str, bytes]) -> Documents:
    """Drop empty documents, and all but the first of those with equal content; sort by name.

    Example:
        >>> drop_copies({"b": b"same", "a": b"same", "c": b""})
        {'a': b'same'}
    """
    first_of: dict[bytes, str] = {}
    for name in sorted(documents):
        first_of.setdefault(hashlib.sha256(documents[name]).digest(), name)
    return {name: documents[name] for name in first_of.values() if documents[name]}


def spread(documents: Mapping[str, bytes], max_bytes: int) -> Documents:
    """Take exactly ``max_bytes`` of a larger collection (a smaller one whole), spread over its documents.

    Documents are taken in the order of a hash of their names, each up to a cap: a twentieth of the whole, or,
    where few or short documents could not fill that, the smallest cap with which all of them together can.
    """

    def filled(cap: int) -> int:
        """Return the bytes of all documents, each up to the cap."""
        return sum(min(len(data), cap) for data in documents.values())

    if filled(max_bytes) < max_bytes:
        return dict(documents)
    cap = max(1, max_bytes // 20, bisect_left(range(max_bytes), max_bytes, key=filled))
    chosen: Documents = {}
    left = max_bytes
    for name in sorted(documents, key=lambda name: hash_to_unit("spread", name)):
        chosen[name] = documents[name][: min(cap, left)]
        left -= len(chosen[name])
        if left == 0:
            break
    return {name: chosen[name] for name in sorted(chosen)}


def split_by_name(documents: Mapping[str, bytes], validation_fraction: float) -> tuple[Documents, Documents]:
    """Split documents into train and validation: the latter where the name's hash is below the fraction.

    No side is left empty.
    """
    ranked = sorted(documents, key=lambda name: hash_to_unit("split", name))
    below = sum(hash_to_unit("split", name) < validation_fraction for name in ranked)
    validation = set(ranked[: min(max(below, 1), len(ranked) - 1)])
    train = {name: data for name, data in documents.items() if name not in validation}
    return train, {name: data for name, data in documents.items() if name in validation}


def split_by_position(data: bytes, validation_fraction: float) -> tuple[bytes, bytes]:
    """Split one text into beginning and end, at the start of the line in which the end begins, if near."""
    target = int(len(data) * (1 - validation_fraction))
    line_start = data.rfind(b"\n", 0, target) + 1
    near = 2 * (target - line_start) <= len(data) - target  # else a long line would move most of the text
    cut = line_start if line_start and near else target
    return data[:cut], data[cut:]


def hash_to_unit(label: str, name: str) -> float:
    """Return a number in [0, 1) made of the name alone; another label gives an unrelated number.

    Example:
        >>> split, spread = hash_to_unit("split", "a.txt"), hash_to_unit("spread", "a.txt")
        >>> 0 <= split < 1, split == spread
        (True, False)
    """
    digest = hashlib.sha256(f"{label}\0{name}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def hash_content(parts: Mapping[str, Mapping[str, bytes]]) -> str:
    """Return the sha256 over parts (train and validation), names, lengths and bytes, in the order given."""
    total = hashlib.sha256()
    for part, documents in parts.items():
        for name, data in documents.items():
            total.update(f"{part}\0{name}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
            total.update(data)
    return total.hexdigest()
