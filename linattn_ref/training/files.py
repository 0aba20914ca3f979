"""Write files that are whole or not there; every module uses this for what a reader would miss."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

Content = str | bytes | Callable[[BinaryIO], object]  # text, bytes, or what writes the bytes


def write_atomically(files: Mapping[Path, Content]) -> None:
    """Write each file beside its place and flush it; when all are complete, put each in its place.

    Folders on the way are made. If writing fails, every file is as it was and the partial ones are removed.
    A process that dies leaves each file old or new, and at most a ``.NAME.PID.partial`` beside it.

    Args:
        files: path -> text, bytes, or a function that writes bytes to an open file.

    Raises:
        OSError: the disk is full, or the place cannot be written to.
    """
    partial = {path: path.with_name(f".{path.name}.{os.getpid()}.partial") for path in files}
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial[path].open("wb") as file:
                if callable(content):
                    content(file)
                else:
                    file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())  # the bytes are on the disk before the name is
        for path, part in partial.items():
            os.replace(part, path)
    finally:
        for part in partial.values():
            part.unlink(missing_ok=True)
    if os.name == "posix":  # the new names are on the disk, too
        for folder in {path.parent for path in files}:
            _flush(folder)


def _flush(folder: Path) -> None:
    """Flush a folder's list of names to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
