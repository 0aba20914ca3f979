"""The text of the study, made once: a file of bytes for each corpus, with a hash that every run checks.

Both corpora are split by document, copies removed. Training text is taken from the documents in the order of
a hash of their names (``documents.spread``), so the smaller part of the code is part of the larger one; both
have the same validation text.

Names like "recall-512" need no file: they are drawn, sequences of 512 tokens of multi-query recall, each with
its answers behind it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from linattn_ref.training.files import write_atomically
from linattn_ref.training.tasks import documents as docs
from linattn_ref.training.tasks.recall import multi_query_recall, with_needles

NAMES = ("train", "validation")


@dataclass(frozen=True)
class Part:
    """How much of which text: bytes to train on, bytes to validate on, share of documents for the latter.

    ``text`` is a name that ``command`` knows; ``sha256`` is that of what we measured on; empty: any will do.
    """

    text: str
    train: int
    validation: int
    validation_fraction: float
    sha256: str = ""


PARTS = {
    "novels": Part(
        "novels",
        58_000_000,
        4_000_000,
        0.05,
        "94df293352175792c57052415413b42351e28cb639fab4459713ca6a9a5957bb",
    ),
    "code": Part(
        "code",
        58_000_000,
        4_000_000,
        0.03,
        "fb0fa41a730d0ea557c47daea5927e8b71625e21bfa0dd33a0bb7b7502ff6830",
    ),
    "code-large": Part(
        "code",
        240_000_000,
        4_000_000,
        0.03,
        "d3de63a66502ca12ae70f8baec325dadf129e6cb4e1ba6691f8bb1b6c6dd9e9b",
    ),
    "library-prose": Part("library-prose", 800_000, 50_000, 0.1),
    "library-code": Part("library-code", 2_000_000, 100_000, 0.1),
}


class Needles(NamedTuple):
    """How a text to train on is mixed with needles: ``n`` in every stretch of ``every`` bytes of it."""

    text: str
    every: int
    n: int


WITH_NEEDLES = {
    "novels-needles": Needles("novels", 2048, 1),
    "novels-many-needles": Needles("novels", 1024, 4),
    "code-many-needles": Needles("code", 1024, 4),
}


def file_of(name: str) -> str:
    """The corpus that a name is made from: itself, or the text that needles are mixed into."""
    return WITH_NEEDLES[name].text if name in WITH_NEEDLES else name


@dataclass(frozen=True, eq=False)
class Text:
    """Bytes to train on and to validate on, ``[N]`` and ``[M]`` uint8, and the hash of both."""

    train: Tensor
    validation: Tensor
    sha256: str


def prepare(name: str, documents: Mapping[str, bytes], folder: Path, part: Part | None = None) -> Text:
    """Write ``NAME.bytes`` and ``NAME.json`` from all documents of its text; whole, or not at all.

    Raises:
        ValueError: an unknown name, or too little text.
    """
    if part is None and name not in PARTS:
        raise ValueError(f"name: got {name!r}, expected one of {sorted(PARTS)}, or a part")
    part = part or PARTS[name]
    kept = docs.without_copies(documents)
    if len(kept) < 2:
        raise ValueError(f"documents: got {len(kept)} distinct ones, expected two at least")
    sides = docs.split_by_name(kept, part.validation_fraction)
    data = {}
    for side, found, size in zip(NAMES, sides, (part.train, part.validation), strict=True):
        n_bytes = sum(map(len, found.values()))
        if n_bytes < size:
            raise ValueError(f"documents: {n_bytes:,} bytes for {side} of {name}, expected {size:,} at least")
        data[side] = b"".join(docs.spread(found, size).values())
    digest = _digest(data["train"], data["validation"])
    if part.sha256 not in ("", digest):
        raise ValueError(f"documents: sha256 {digest[:12]}... is not that of {name}, {part.sha256[:12]}...")
    return write(name, data["train"], data["validation"], folder)


def write(name: str, train: bytes, validation: bytes, folder: Path) -> Text:
    """Whole, or not at all."""
    about = {"train": len(train), "validation": len(validation), "sha256": _digest(train, validation)}
    write_atomically(
        {
            folder / f"{name}.bytes": train + validation,
            folder / f"{name}.json": json.dumps(about, indent=2) + "\n",
        }
    )
    return load(name, folder)


def load(name: str, folder: Path) -> Text:
    """What ``prepare`` wrote, that with needles (``WITH_NEEDLES``), or what is drawn (``recall_length``).

    Raises:
        ValueError: it is not there, or its bytes are not those that were written.
    """
    if recall_length(name):
        return recall_text(recall_length(name), N_TRAIN, N_VALIDATION)
    if name in WITH_NEEDLES:
        text, every, n = WITH_NEEDLES[name]
        plain = load(text, folder)
        train = with_needles(plain.train, every, torch.Generator().manual_seed(0), n)
        found = (bytes(x.numpy()) for x in (train, plain.validation))
        return Text(train, plain.validation, _digest(*found))
    file, about_file = folder / f"{name}.bytes", folder / f"{name}.json"
    if not (file.is_file() and about_file.is_file()):
        raise ValueError(f"corpus: {name!r} is not in {folder}; `linattn study corpora` makes it")
    about = json.loads(about_file.read_text("utf-8"))
    data = bytearray(file.read_bytes())
    n = about["train"]
    digest = _digest(bytes(data[:n]), bytes(data[n:]))
    if len(data) != n + about["validation"] or digest != about["sha256"]:
        raise ValueError(
            f"corpus: {file} is not what was prepared: sha256 {digest[:12]}..., expected "
            f"{about['sha256'][:12]}...; delete it and run `linattn study corpora` again"
        )
    whole = torch.frombuffer(data, dtype=torch.uint8)
    return Text(whole[:n], whole[n:], digest)


# --- multi-query recall -------------------------------------------------------------------------------------

PAIRS = (4, 8, 16, 32, 64)  # of key and value, as many sequences of each
RECALL_VOCAB = 256  # keys below 128, values above
N_TRAIN, N_VALIDATION = 2**17, 2**10  # sequences


def recall_length(name: str) -> int:
    """Of the sequences of such a corpus; 0 for the name of a text."""
    kind, _, length = name.partition("-")
    return int(length) if kind == "recall" and length.isdigit() else 0


def recall_text(length: int, n_train: int, n_validation: int) -> Text:
    """Sequences in a row, of 2 ``length`` bytes each: inputs, then targets, 0 where nothing is asked."""
    sides = []
    for seed, n in enumerate((n_train, n_validation)):
        generator = torch.Generator().manual_seed(seed)
        parts = [recall_windows(length, n_pairs, -(-n // len(PAIRS)), generator) for n_pairs in PAIRS]
        windows = torch.cat(parts)[torch.randperm(len(parts) * len(parts[0]), generator=generator)[:n]]
        sides.append(windows.flatten())
    train, validation = sides
    return Text(train, validation, _digest(train.numpy().tobytes(), validation.numpy().tobytes()))


def recall_windows(length: int, n_pairs: int, n: int, generator: torch.Generator) -> Tensor:
    """``[n, 2 length]`` uint8: inputs and targets, side by side."""
    inputs, targets = multi_query_recall(n, length, n_pairs, generator, vocab_size=RECALL_VOCAB)
    return torch.cat([inputs, targets.clamp(min=0)], 1).to(torch.uint8)


def _digest(train: bytes, validation: bytes) -> str:
    total = hashlib.sha256()
    for name, data in zip(NAMES, (train, validation), strict=True):
        total.update(f"{name}\0{len(data)}\0".encode() + data)
    return total.hexdigest()
