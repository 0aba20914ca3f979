"""Read text as bytes: a corpus needs no tokenizer, no download and no licence page to click.

A byte is a token (vocabulary 256), so the loss in nats per token divided by ``ln 2`` is bits per byte, and
losses on different texts, and against any compressor, are in one unit. The default text is the Python source
of the standard library, which every machine that can run this package already has.

Three rules make a run repeatable:

1. files are taken in the order of their relative paths, and a file's side (train or validation) depends on
   its path alone, so a smaller corpus never moves a file across;
2. files of equal content count once, so no validation file is also a training file;
3. ``sha256`` covers the names and bytes of exactly what was used, side by side with the split.
"""

import math
import platform
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from linattn_ref.ops.validation import require
from linattn_ref.training.tasks import documents as docs

SPLITS = ("train", "validation")


@dataclass(frozen=True, eq=False, repr=False)
class ByteCorpus:
    """Hold two byte sequences, one to train on and one to validate on, and where they came from.

    Make one with ``python_stdlib``, ``from_path``, ``from_hugging_face`` or ``from_documents``.

    Args:
        name: short name for tables, such as ``"python-stdlib-3.12.4"``.
        train: uint8 [N], the training files one after the other, in the order of their paths.
        validation: uint8 [M], likewise.
        sha256: hex digest over split, names, lengths and bytes of everything used.
        train_files, validation_files: relative paths (posix), in order.

    Raises:
        ValueError: ``train`` or ``validation`` is not a one-dimensional uint8 tensor with at least one byte.

    Example:
        >>> corpus = ByteCorpus.from_documents("two", {"a": b"to be or not " * 9, "b": b"not to be " * 9})
        >>> corpus.n_bytes, corpus.n_files
        (207, 2)
        >>> inputs, targets = corpus.sample("train", 1, 4, torch.Generator().manual_seed(0))
        >>> inputs.shape, torch.equal(inputs[:, 1:], targets[:, :-1])
        (torch.Size([1, 4]), True)
    """

    name: str
    train: Tensor
    validation: Tensor
    sha256: str
    train_files: tuple[str, ...]
    validation_files: tuple[str, ...]

    def __post_init__(self) -> None:
        for split in SPLITS:
            data = getattr(self, split)
            fits = data.dtype == torch.uint8 and data.ndim == 1 and len(data) > 0
            came = f"{data.dtype} of shape {list(data.shape)}"
            require(fits, split, came, "a non-empty uint8 tensor of shape [N]")

    def __repr__(self) -> str:
        sizes = f"train {len(self.train):,} bytes, validation {len(self.validation):,} bytes"
        return f"ByteCorpus({self.name!r}, {self.n_files} files, {sizes}, sha256 {self.sha256[:12]})"

    # ---- where the text comes from ----------------------------------------------------------------------

    @classmethod
    def from_documents(
        cls,
        name: str,
        documents: Mapping[str, bytes],
        *,
        max_bytes: int | None = None,
        validation_fraction: float = 0.1,
    ) -> "ByteCorpus":
        """Make a corpus of named byte strings, split by name. The other constructors end here.

        Args:
            name: of the corpus.
            documents: name -> bytes; empty ones and later copies of an earlier content are dropped.
            max_bytes: keep exactly this many bytes if there are more: documents in the order of a hash of
                their names, from each at most the first ``max_bytes / 20`` bytes (more only if needed to
                fill up), so that the subset is spread over at least about twenty documents. None = all.
            validation_fraction: a document is for validation if a hash of its name, seen as a number in
                [0, 1), is below this; each side gets at least one document.

        Raises:
            ValueError: fewer than two distinct documents, or an argument out of range.
        """
        _check_arguments(max_bytes, validation_fraction)
        kept = docs.drop_copies(documents)
        if max_bytes is not None:
            kept = docs.spread(kept, max_bytes)
        came = f"{len(kept)} of {len(documents)} given (max_bytes {max_bytes})"
        require(len(kept) >= 2, "documents", came, "two distinct non-empty ones at least")
        return _assemble(name, *docs.split_by_name(kept, validation_fraction))

    @classmethod
    def python_stdlib(cls, max_bytes: int | None = None, validation_fraction: float = 0.1) -> "ByteCorpus":
        """Make a corpus of the running interpreter's standard library: about 12 MB of Python, 800 files.

        Left out: installed packages, caches, every folder named test, tests or idle_test, and the files that
        record how this very interpreter was built (``_sysconfigdata*``, ``config-*``). Bytes are taken as
        they are, without decoding. **The text differs between Python versions** (and a distribution may
        patch it), so losses compare only where ``sha256`` agrees; ``name`` carries the version.

        Args:
            max_bytes, validation_fraction: see ``from_documents``.

        Raises:
            ValueError: the interpreter keeps no source files (some embedded builds), or see `from_documents`.
        """
        _check_arguments(max_bytes, validation_fraction)
        root = Path(sysconfig.get_path("stdlib"))
        documents = docs.read_folder(root, "*.py", docs.is_library_source)
        if not documents:
            raise ValueError("python_stdlib: this interpreter has no library source; use from_path instead")
        name = f"python-stdlib-{platform.python_version()}"
        return cls.from_documents(
            name, documents, max_bytes=max_bytes, validation_fraction=validation_fraction
        )

    @classmethod
    def from_path(
        cls,
        path: str | Path,
        pattern: str = "*.txt",
        *,
        max_bytes: int | None = None,
        validation_fraction: float = 0.1,
    ) -> "ByteCorpus":
        """Make a corpus of your own text: a folder, split by file, or one file, split by position.

        One file has no second file to validate on: its last ``validation_fraction`` is used, from the start
        of the line in which that part begins, and ``max_bytes`` keeps the beginning of the file. Bytes are
        taken as they are.

        Args:
            path: a file, or a folder, which is searched recursively.
            pattern: of the names of files in a folder; default ``"*.txt"``.
            max_bytes, validation_fraction: see ``from_documents``.

        Raises:
            ValueError: nothing there, nothing that matches, too little text, or an argument out of range.
        """
        path = Path(path)
        _check_arguments(max_bytes, validation_fraction)
        if path.is_file():
            head, tail = docs.split_by_position(path.read_bytes()[:max_bytes], validation_fraction)
            enough = bool(head and tail)
            require(enough, "path", f"{len(head + tail)} bytes", "text enough for two parts")
            return _assemble(path.name, {path.name: head}, {path.name: tail})
        require(path.is_dir(), "path", f"{path}, which does not exist", "a file or a folder")
        documents = docs.read_folder(path, pattern)
        require(bool(documents), "pattern", f"{pattern!r}", f"one that a file under {path} matches")
        return cls.from_documents(
            path.resolve().name, documents, max_bytes=max_bytes, validation_fraction=validation_fraction
        )

    @classmethod
    def from_hugging_face(
        cls,
        name: str,
        *,
        split: str = "train",
        column: str = "text",
        subset: str | None = None,
        max_bytes: int | None = None,
        validation_fraction: float = 0.1,
    ) -> "ByteCorpus":
        """Make a corpus of a dataset of the Hugging Face hub; each row is a document.

        It needs ``pip install datasets``.

        With ``max_bytes`` the rows are streamed in the dataset's own order and reading stops when there are
        enough bytes: spreading the choice over all rows would download them all.

        Args:
            name: such as ``"roneneldan/TinyStories"``; ``subset`` is the hub's configuration name, if any.
            split: the dataset's split to read; it is divided again into train and validation by row.
            column: the column that holds the text.
            max_bytes, validation_fraction: see ``from_documents``.

        Raises:
            ImportError: the package ``datasets`` is not installed.
            ConnectionError: the dataset cannot be found or reached.
            ValueError: no such column, a column that is not text, or see `from_documents`.
        """
        _check_arguments(max_bytes, validation_fraction)
        try:
            rows = docs.fetch_hugging_face_rows(name, subset, split, streaming=max_bytes is not None)
            documents = docs.read_rows(rows, split, column, math.inf if max_bytes is None else max_bytes)
        except OSError as error:
            hint = "offline? python_stdlib() and from_path() need no network"
            raise ConnectionError(f"name: dataset {name!r} could not be read ({hint}): {error}") from error
        full_name = f"{name}/{subset}" if subset else name
        return cls.from_documents(
            full_name, documents, max_bytes=max_bytes, validation_fraction=validation_fraction
        )

    # ---- what it gives ----------------------------------------------------------------------------------

    @property
    def n_bytes(self) -> int:
        """Return the number of bytes in both splits together."""
        return len(self.train) + len(self.validation)

    @property
    def n_files(self) -> int:
        """Return the number of distinct files in both splits together."""
        return len({*self.train_files, *self.validation_files})

    def split(self, split: str) -> Tensor:
        """Return the bytes of a split, uint8 [N].

        Args:
            split: "train" or "validation".

        Raises:
            ValueError: any other word.
        """
        require(split in SPLITS, "split", f"{split!r}", f"one of {SPLITS}")
        data: Tensor = getattr(self, split)
        return data

    def sample(
        self,
        split: str,
        batch_size: int,
        seq_len: int,
        generator: torch.Generator,
        device: torch.device | str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Draw windows at uniformly random places; the target of a byte is the next byte.

        Args:
            split: "train" or "validation".
            batch_size: number of windows, B.
            seq_len: bytes of each, T.
            generator: a CPU generator, always given: the global one is neither read nor advanced.
            device: where the two tensors go; None = CPU.

        Returns:
            inputs, targets: int64 [B, T] each, ``targets[:, t]`` being the byte after ``inputs[:, t]``.

        Raises:
            ValueError: unknown split, a size below 1, a split of fewer than ``seq_len + 1`` bytes, or a
                generator that is none or does not live on the CPU.
        """
        data = self.split(split)
        least = min(batch_size, seq_len)
        require(least >= 1, "batch_size, seq_len", f"{batch_size} and {seq_len}", "at least 1")
        most = f"{len(data) - 1} at most: {split} of {self.name!r} has {len(data)} bytes"
        require(seq_len < len(data), "seq_len", f"{seq_len}", most)
        on_cpu = isinstance(generator, torch.Generator) and generator.device.type == "cpu"
        require(on_cpu, "generator", f"{generator!r}", "a torch.Generator on the CPU")
        starts = torch.randint(len(data) - seq_len, (batch_size, 1), generator=generator)  # [B, 1]
        windows = data[starts + torch.arange(seq_len + 1)].long()  # [B, T + 1]
        return windows[:, :-1].to(device), windows[:, 1:].to(device)

    def unigram_bits(self) -> float:
        """Return the bits per byte of guessing validation bytes by their frequencies in training alone.

        What a model must beat to have learnt anything about order. Every byte value starts with a count of
        one, so a byte never seen in training costs many bits, not infinitely many.
        """
        counts = torch.bincount(self.train, minlength=256).double() + 1  # [256]
        bits = -torch.log2(counts / counts.sum())  # [256] price of each byte value
        wanted = torch.bincount(self.validation, minlength=256).double()  # [256]
        return float((wanted * bits).sum() / wanted.sum())


def _check_arguments(max_bytes: int | None, validation_fraction: float) -> None:
    """Raise a ``ValueError`` if an argument of a constructor is out of range."""
    require(max_bytes is None or max_bytes >= 1, "max_bytes", f"{max_bytes}", "None or at least 1")
    inside = 0 < validation_fraction < 1
    require(inside, "validation_fraction", f"{validation_fraction}", "a number between 0 and 1")


def _assemble(name: str, train: Mapping[str, bytes], validation: Mapping[str, bytes]) -> ByteCorpus:
    """Make a corpus of documents that are split already."""
    data, held_out = (bytearray(b"".join(part.values())) for part in (train, validation))
    return ByteCorpus(
        name=name,
        train=torch.frombuffer(data, dtype=torch.uint8),
        validation=torch.frombuffer(held_out, dtype=torch.uint8),
        sha256=docs.hash_content({"train": train, "validation": validation}),
        train_files=tuple(train),
        validation_files=tuple(validation),
    )
