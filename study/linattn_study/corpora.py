"""Prepare the corpora of the study once: a file of bytes for each, with a hash that every run checks.

Both corpora are split by document, copies removed; "novels-authors" and "code-packages" by author and by
package, so that their validation text is by nobody, and from nothing, that was trained on. Training text is
taken from the documents in the order of a hash of their names (``documents.spread``), so the smaller part of
the code is part of the larger one; parts have the validation text of the whole. Texts with needles or repeats
are made from these when they are loaded.

Names like "recall-512" need no file: they are drawn, sequences of 512 tokens of multi-query recall, each with
its answers behind it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from linattn_ref.training.files import write_atomically
from linattn_ref.training.tasks import SPLITS
from linattn_ref.training.tasks import documents as docs
from linattn_ref.training.tasks.recall import insert_needles, multi_query_recall
from linattn_study.repeats import LONG_FAR, LONG_NEAR, SHORT, Passages, insert_repeats


@dataclass(frozen=True)
class Recipe:
    """Say how a corpus is made: how much of which text.

    Args:
        text: a name that ``command`` can read.
        train: bytes to train on.
        validation: bytes to validate on.
        validation_fraction: share of the documents, or of their groups, for validation.
        by: documents of one "author" or "package" are on the same side; default "document".
        sha256: of the corpus that we measured on; default "": any will do.
    """

    text: str
    train: int
    validation: int
    validation_fraction: float
    sha256: str = ""
    by: Literal["document", "author", "package"] = "document"


RECIPES = {
    "novels": Recipe(
        "novels",
        58_000_000,
        4_000_000,
        0.05,
        "94df293352175792c57052415413b42351e28cb639fab4459713ca6a9a5957bb",
    ),
    "code": Recipe(
        "code",
        58_000_000,
        4_000_000,
        0.03,
        "fb0fa41a730d0ea557c47daea5927e8b71625e21bfa0dd33a0bb7b7502ff6830",
    ),
    "code-large": Recipe(
        "code",
        240_000_000,
        4_000_000,
        0.03,
        "d3de63a66502ca12ae70f8baec325dadf129e6cb4e1ba6691f8bb1b6c6dd9e9b",
    ),
    "novels-quarter": Recipe(
        "novels",
        14_500_000,
        4_000_000,
        0.05,
        "2442735179926b17de4ec1a248245eae739db18becc52fa28c76ae07500bbd16",
    ),
    "novels-authors": Recipe(
        "novels",
        58_000_000,
        4_000_000,
        0.12,
        "5d8706fb9f163b39bd31f52eec2f571481e30e7e5c571b8fbab84de2917198c6",
        by="author",
    ),
    "code-packages": Recipe(
        "code",
        58_000_000,
        4_000_000,
        0.1,
        "977e544beed77bee3b8eba5f74abc655059912b9e3314e4d7b3e3d7c1b07cd31",
        by="package",
    ),
    "library-prose": Recipe("library-prose", 800_000, 50_000, 0.1),
    "library-code": Recipe("library-code", 2_000_000, 100_000, 0.1),
}


class NeedleRecipe(NamedTuple):
    """Say how a text to train on is mixed with needles: ``n`` in every stretch of ``every`` bytes of it."""

    text: str
    every: int
    n: int


WITH_NEEDLES = {
    "novels-needles": NeedleRecipe("novels", 2048, 1),
    "novels-many-needles": NeedleRecipe("novels", 1024, 4),
    "code-many-needles": NeedleRecipe("code", 1024, 4),
}


class RepeatsRecipe(NamedTuple):
    """Say which share of a text to train on is written over by which passages from shortly before."""

    text: str
    share: float
    passages: Passages = SHORT


WITH_REPEATS = {
    "novels-repeats-10": RepeatsRecipe("novels", 0.10),
    "novels-repeats-25": RepeatsRecipe("novels", 0.25),
    "novels-repeats-50": RepeatsRecipe("novels", 0.50, LONG_NEAR),
    "novels-repeats-50-far": RepeatsRecipe("novels", 0.50, LONG_FAR),
}
DERIVED: dict[str, NeedleRecipe | RepeatsRecipe] = {**WITH_NEEDLES, **WITH_REPEATS}


def find_prepared_name(name: str) -> str:
    """Return the prepared corpus that one is made from: itself, or the text that gets needles or repeats."""
    return DERIVED[name].text if name in DERIVED else name


@dataclass(frozen=True, eq=False)
class StudyCorpus:
    """Hold a corpus of the study.

    Args:
        train: bytes to train on, uint8 [N].
        validation: bytes to validate on, uint8 [M].
        sha256: hash of both.
    """

    train: Tensor
    validation: Tensor
    sha256: str


def prepare(
    name: str, documents: Mapping[str, bytes], folder: Path, recipe: Recipe | None = None
) -> StudyCorpus:
    """Make a corpus and write it as ``NAME.bytes`` and ``NAME.json``; whole, or not at all.

    Args:
        name: of the corpus.
        documents: name -> bytes, all documents of its text.
        folder: where the files go.
        recipe: default: that of ``RECIPES``.

    Returns:
        The corpus.

    Raises:
        ValueError: an unknown name, too little text, or bytes that are not those that we measured on.
    """
    if recipe is None and name not in RECIPES:
        raise ValueError(f"name: got {name!r}, expected one of {sorted(RECIPES)}, or a recipe")
    recipe = recipe or RECIPES[name]
    kept = docs.drop_copies(documents)
    if len(kept) < 2:
        raise ValueError(f"documents: got {len(kept)} distinct ones, expected two at least")
    sides = split_by_group(kept, recipe)
    data = {}
    for split, side, size in zip(SPLITS, sides, (recipe.train, recipe.validation), strict=True):
        n_bytes = sum(map(len, side.values()))
        if n_bytes < size:
            raise ValueError(
                f"documents: got {n_bytes:,} bytes for {split} of {name}, expected {size:,} at least"
            )
        data[split] = b"".join(docs.spread(side, size).values())
    digest = _hash_content(data["train"], data["validation"])
    if recipe.sha256 not in ("", digest):
        raise ValueError(f"documents: sha256 {digest[:12]}... is not that of {name}, {recipe.sha256[:12]}...")
    return write(name, data["train"], data["validation"], folder)


def split_by_group(documents: Mapping[str, bytes], recipe: Recipe) -> tuple[docs.Documents, docs.Documents]:
    """Split documents into train and validation, so that no author or package of ``recipe.by`` is in both."""
    groups = {name: find_group(name, recipe.by) for name in documents}
    _, apart = docs.split_by_name(dict.fromkeys(groups.values(), b""), recipe.validation_fraction)
    train = {name: data for name, data in documents.items() if groups[name] not in apart}
    return train, {name: data for name, data in documents.items() if groups[name] in apart}


def find_group(name: str, by: str) -> str:
    """Return what a document of that name belongs to: itself, its author or its package.

    Example:
        >>> find_group("ENG18471_Bronte.xml", "author"), find_group("sympy-1.14.0/sympy/abc.py", "package")
        ('Bronte', 'sympy-1.14.0')
    """
    if by == "author":
        return name.partition("_")[2].removesuffix(".xml")
    return name.partition("/")[0] if by == "package" else name


def write(name: str, train: bytes, validation: bytes, folder: Path) -> StudyCorpus:
    """Write a corpus as ``NAME.bytes`` and ``NAME.json``, whole, or not at all, and return it."""
    about = {"train": len(train), "validation": len(validation), "sha256": _hash_content(train, validation)}
    write_atomically(
        {
            folder / f"{name}.bytes": train + validation,
            folder / f"{name}.json": json.dumps(about, indent=2) + "\n",
        }
    )
    return load(name, folder)


def load(name: str, folder: Path) -> StudyCorpus:
    """Return a corpus: a prepared one, one made from it (``DERIVED``), or recall, which is drawn.

    Args:
        name: of the corpus.
        folder: of the prepared ones.

    Raises:
        ValueError: it is not there, or its bytes are not those that were written.
    """
    if parse_recall_length(name):
        return draw_recall_text(parse_recall_length(name), N_TRAIN, N_VALIDATION)
    if name in DERIVED:
        return _derive(DERIVED[name], folder)
    file, about_file = folder / f"{name}.bytes", folder / f"{name}.json"
    if not (file.is_file() and about_file.is_file()):
        raise ValueError(f"corpus: {name!r} is not in {folder}; `linattn study corpora` makes it")
    about = json.loads(about_file.read_text("utf-8"))
    data = bytearray(file.read_bytes())
    n = about["train"]
    digest = _hash_content(bytes(data[:n]), bytes(data[n:]))
    if len(data) != n + about["validation"] or digest != about["sha256"]:
        raise ValueError(
            f"corpus: {file} is not what was prepared: sha256 {digest[:12]}..., expected "
            f"{about['sha256'][:12]}...; delete it and run `linattn study corpora` again"
        )
    whole = torch.frombuffer(data, dtype=torch.uint8)
    return StudyCorpus(whole[:n], whole[n:], digest)


def _derive(recipe: NeedleRecipe | RepeatsRecipe, folder: Path) -> StudyCorpus:
    """Mix something into the training text of a prepared corpus; its validation text stays as it is."""
    plain, generator = load(recipe.text, folder), torch.Generator().manual_seed(0)
    if isinstance(recipe, NeedleRecipe):
        train = insert_needles(plain.train, recipe.every, generator, recipe.n)
    else:
        train = insert_repeats(plain.train, recipe.share, generator, recipe.passages)
    splits = (bytes(x.numpy()) for x in (train, plain.validation))
    return StudyCorpus(train, plain.validation, _hash_content(*splits))


# --- multi-query recall -------------------------------------------------------------------------------------

PAIRS = (4, 8, 16, 32, 64)  # numbers of pairs of key and value, as many sequences with each
RECALL_VOCAB = 256  # keys below 128, values above
N_TRAIN, N_VALIDATION = 2**17, 2**10  # sequences


def parse_recall_length(name: str) -> int:
    """Return the length of the sequences of a corpus of recall; 0 for the name of a text."""
    kind, _, length = name.partition("-")
    return int(length) if kind == "recall" and length.isdigit() else 0


def draw_recall_text(length: int, n_train: int, n_validation: int) -> StudyCorpus:
    """Draw a corpus of recall: sequences in a row, of 2 ``length`` bytes each.

    A sequence is its inputs, then its targets, 0 where nothing is asked.

    Args:
        length: of a sequence, in tokens.
        n_train, n_validation: numbers of sequences.
    """
    sides = []
    for seed, n in enumerate((n_train, n_validation)):
        generator = torch.Generator().manual_seed(seed)
        parts = [draw_recall_windows(length, n_pairs, -(-n // len(PAIRS)), generator) for n_pairs in PAIRS]
        windows = torch.cat(parts)[torch.randperm(len(parts) * len(parts[0]), generator=generator)[:n]]
        sides.append(windows.flatten())
    train, validation = sides
    return StudyCorpus(
        train, validation, _hash_content(train.numpy().tobytes(), validation.numpy().tobytes())
    )


def draw_recall_windows(length: int, n_pairs: int, n: int, generator: torch.Generator) -> Tensor:
    """Draw sequences of recall, uint8 [n, 2 length]: inputs and targets, side by side."""
    inputs, targets = multi_query_recall(n, length, n_pairs, generator, vocab_size=RECALL_VOCAB)
    return torch.cat([inputs, targets.clamp(min=0)], 1).to(torch.uint8)


def _hash_content(train: bytes, validation: bytes) -> str:
    """Return the sha256 of both splits."""
    total = hashlib.sha256()
    for name, data in zip(SPLITS, (train, validation), strict=True):
        total.update(f"{name}\0{len(data)}\0".encode() + data)
    return total.hexdigest()
