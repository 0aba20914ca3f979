"""The byte corpus: what is in it, who is on which side, and that nothing about it depends on chance."""

import hashlib
import math
import random
import sys
from pathlib import Path

import pytest
import torch

from linattn_ref.training.tasks import ByteCorpus
from linattn_ref.training.tasks.documents import is_library_source, split_by_name, split_by_position, spread


def many(n: int = 40, size: int = 300) -> dict[str, bytes]:
    """Return n documents of different content and length, named like files."""
    chance = random.Random(0)
    return {f"folder{i % 3}/{i}.txt": chance.randbytes(size + i) for i in range(n)}


def write(root: Path, documents: dict[str, bytes]) -> Path:
    """Write documents as files below a folder; return the folder."""
    for name, data in documents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def generator(seed: int = 0) -> torch.Generator:
    """Return a new generator; the fixture of this name would be one for the whole test."""
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def stdlib() -> ByteCorpus:
    return ByteCorpus.python_stdlib(max_bytes=200_000)


# ---- sources ---------------------------------------------------------------------------------------------


def test_stdlib_is_the_same_every_time_and_says_its_python_version(stdlib: ByteCorpus) -> None:
    again = ByteCorpus.python_stdlib(max_bytes=200_000)
    assert again.sha256 == stdlib.sha256
    assert torch.equal(again.train, stdlib.train)
    assert again.train_files == stdlib.train_files
    assert stdlib.name == f"python-stdlib-{sys.version.split()[0]}"
    assert stdlib.n_bytes == 200_000


def test_stdlib_holds_library_source_and_no_tests_packages_or_machine_records(stdlib: ByteCorpus) -> None:
    files = [*stdlib.train_files, *stdlib.validation_files]
    assert stdlib.n_files == len(files) >= 20
    assert all(is_library_source(Path(name)) and name.endswith(".py") for name in files)
    kept = ["os.py", "json/decoder.py", "unittest/mock.py", "config.py"]
    dropped = ["test/test_os.py", "idlelib/idle_test/a.py", "site-packages/torch/nn.py", "__pycache__/a.py"]
    dropped += [
        "_sysconfigdata__linux_.py",
        "config-3.12-x86_64-linux-gnu/python-config.py",
        "unittest/test/a.py",
    ]
    assert [is_library_source(Path(name)) for name in kept] == [True] * 4
    assert [is_library_source(Path(name)) for name in dropped] == [False] * 7


def test_folder_is_read_at_any_depth_in_the_order_of_paths(tmp_path: Path) -> None:
    documents = many()
    write(tmp_path, {**documents, "ignored.md": b"not text"})
    corpus = ByteCorpus.from_path(tmp_path)
    assert corpus.train_files == tuple(sorted(corpus.train_files))
    assert {*corpus.train_files, *corpus.validation_files} == set(documents)
    assert bytes(corpus.train.tolist()) == b"".join(documents[name] for name in corpus.train_files)
    assert bytes(corpus.validation.tolist()) == b"".join(documents[name] for name in corpus.validation_files)
    assert "ignored.md" in ByteCorpus.from_path(tmp_path, "*").train_files + corpus.validation_files


def test_folder_and_documents_of_equal_names_and_bytes_are_the_same_corpus(tmp_path: Path) -> None:
    first = ByteCorpus.from_path(write(tmp_path, many()))
    second = ByteCorpus.from_documents("other name", dict(reversed(many().items())))
    assert first.sha256 == second.sha256
    assert torch.equal(first.validation, second.validation)


def test_one_file_is_split_at_the_start_of_a_line_near_its_end(tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % i for i in range(1000))
    (tmp_path / "book.txt").write_bytes(text)
    corpus = ByteCorpus.from_path(tmp_path / "book.txt", validation_fraction=0.2)
    head, tail = bytes(corpus.train.tolist()), bytes(corpus.validation.tolist())
    assert head + tail == text
    assert head.endswith(b"\n")
    assert 0 <= len(tail) - 0.2 * len(text) <= len(b"line 1000\n")
    assert corpus.n_files == 1
    short = ByteCorpus.from_path(tmp_path / "book.txt", max_bytes=500)
    assert short.n_bytes == 500
    assert split_by_position(b"no line end here", 0.25) == (b"no line end ", b"here")


# ---- which text, on which side ---------------------------------------------------------------------------


def test_no_file_is_on_both_sides_and_neither_side_is_empty() -> None:
    for n in (2, 3, 10, 200):
        train, validation = split_by_name(many(n), 0.1)
        assert not {*train} & {*validation}
        assert {*train} | {*validation} == {*many(n)}
        assert train
        assert validation
    assert 5 <= len(validation) <= 40  # about a tenth of 200


def test_a_files_side_depends_on_its_name_alone() -> None:
    _, few = split_by_name(many(100), 0.2)
    _, more = split_by_name(many(200), 0.2)
    assert {*few} == {*more} & {*many(100)}
    small = ByteCorpus.from_documents("d", many(200), max_bytes=20_000)
    large = ByteCorpus.from_documents("d", many(200))
    assert {*small.validation_files} <= {*large.validation_files}
    assert {*small.train_files} <= {*large.train_files}


def test_equal_content_counts_once_whatever_its_name() -> None:
    copies = {f"copy/{i}.txt": b"the same text" for i in range(20)}
    plain = ByteCorpus.from_documents("d", {**many(), "copy/0.txt": b"the same text"})
    corpus = ByteCorpus.from_documents("d", {**many(), **copies, "empty.txt": b""})
    assert corpus.n_files == 41
    assert corpus.sha256 == plain.sha256


def test_sha256_changes_with_bytes_names_and_split() -> None:
    base = ByteCorpus.from_documents("d", many())
    name, data = next(iter(many().items()))
    changed = {**many(), name: data[:-1] + bytes([data[-1] ^ 1])}
    renamed = {**{k: v for k, v in many().items() if k != name}, "other.txt": data}
    others = [
        ByteCorpus.from_documents("d", changed),
        ByteCorpus.from_documents("d", renamed),
        ByteCorpus.from_documents("d", many(), validation_fraction=0.5),
        ByteCorpus.from_documents("d", many(), max_bytes=5000),
    ]
    assert len({base.sha256, *(other.sha256 for other in others)}) == 5
    assert ByteCorpus.from_documents("another name", many()).sha256 == base.sha256


def test_max_bytes_is_met_exactly_and_spread_over_the_files() -> None:
    documents = {**many(60), "huge.txt": bytes(range(256)) * 1000}
    for max_bytes in (100, 5_000, 100_000):
        part = spread(documents, max_bytes)
        assert sum(map(len, part.values())) == max_bytes
        assert all(documents[name].startswith(data) and data for name, data in part.items())
        assert len(part) >= 17
        assert [*part] == sorted(part)
    chosen = spread(documents, 1000)
    assert [*chosen] != sorted(documents)[: len(chosen)]  # not simply the first ones
    assert spread(documents, 10**9) == documents
    assert {*spread({"a": bytes(10), "b": bytes(10**6)}, 500_000)} == {"a", "b"}


# ---- sampling --------------------------------------------------------------------------------------------


def test_targets_are_the_next_bytes_and_windows_are_of_the_text() -> None:
    corpus = ByteCorpus.from_documents("d", many())
    inputs, targets = corpus.sample("validation", 8, 20, generator())
    assert inputs.shape == targets.shape == (8, 20)
    assert inputs.dtype == targets.dtype == torch.int64
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    text = bytes(corpus.validation.tolist())
    assert all(
        bytes([*row.tolist(), last]) in text
        for row, last in zip(inputs, targets[:, -1].tolist(), strict=True)
    )


def test_every_start_can_be_drawn_the_last_included() -> None:
    corpus = ByteCorpus.from_documents("d", {"a": bytes(range(9)), "b": bytes(range(100, 112))})
    length = len(corpus.train)
    inputs, targets = corpus.sample("train", 2000, length - 3, generator())
    assert {*inputs[:, 0].tolist()} == {*corpus.train[:3].tolist()}
    assert {*targets[:, -1].tolist()} == {*corpus.train[-3:].tolist()}
    whole, _ = corpus.sample("train", 2, length - 1, generator())  # exactly one window fits
    assert torch.equal(whole[0], whole[1])


def test_sampling_neither_reads_nor_advances_the_global_generators() -> None:
    corpus = ByteCorpus.from_documents("d", many())
    torch.manual_seed(1)
    first = corpus.sample("train", 4, 16, generator(7))
    torch.manual_seed(2)
    random.seed(3)
    before = torch.get_rng_state(), random.getstate()
    second = corpus.sample("train", 4, 16, generator(7))
    assert torch.equal(first[0], second[0])
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert not torch.equal(first[0], corpus.sample("train", 4, 16, generator(8))[0])


def test_one_seed_draws_the_same_batch_on_every_machine() -> None:
    corpus = ByteCorpus.from_documents("d", many())
    inputs, _ = corpus.sample("train", 4, 16, generator(0))
    digest = hashlib.sha256(bytes(inputs.flatten().tolist())).hexdigest()
    assert digest[:16] == "91da725bc448505f"


def test_unigram_bits_is_the_price_of_guessing_by_frequency() -> None:
    half = bytes([65, 66]) * 50_000
    corpus = ByteCorpus.from_documents("d", {"a": half, "b": half + b"A"})
    assert corpus.unigram_bits() == pytest.approx(1.0, abs=0.02)
    chance = random.Random(0)
    noise = {f"{i}": chance.randbytes(20_000) for i in range(20)}
    assert ByteCorpus.from_documents("d", noise).unigram_bits() == pytest.approx(8.0, abs=0.01)
    unseen = ByteCorpus.from_documents("d", {"a": b"a" * 100, "b": b"b" * 101})
    assert math.isfinite(unseen.unigram_bits())
    assert unseen.unigram_bits() > 8


# ---- wrong in, clear error out ---------------------------------------------------------------------------


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    corpus = ByteCorpus.from_documents("d", many())
    with pytest.raises(ValueError, match=r"split: got 'test', expected one of \('train', 'validation'\)"):
        corpus.sample("test", 1, 1, generator())
    with pytest.raises(ValueError, match=r"seq_len: got 100000, expected \d+ at most: validation of"):
        corpus.sample("validation", 1, 100_000, generator())
    with pytest.raises(ValueError, match="got 0 and 5, expected at least 1"):
        corpus.sample("train", 0, 5, generator())
    with pytest.raises(ValueError, match=r"generator: got None, expected a torch\.Generator on the CPU"):
        corpus.sample("train", 1, 5, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_bytes: got 0, expected None or at least 1"):
        ByteCorpus.python_stdlib(0)
    with pytest.raises(ValueError, match=r"validation_fraction: got 1.*, expected a number between 0 and 1"):
        ByteCorpus.from_documents("d", many(), validation_fraction=1.0)
    with pytest.raises(
        ValueError, match=r"documents: got 1 of 3 .*, expected two distinct non-empty ones at least"
    ):
        ByteCorpus.from_documents("d", {"a": b"x", "b": b"x", "c": b""})
    with pytest.raises(
        ValueError, match=r"path: got .*absent, which does not exist, expected a file or a folder"
    ):
        ByteCorpus.from_path(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"pattern: got '\*.txt', expected one that a file under .* matches"):
        ByteCorpus.from_path(tmp_path)
    (tmp_path / "short").write_bytes(b"x")
    with pytest.raises(ValueError, match="path: got 1 bytes, expected text enough for two parts"):
        ByteCorpus.from_path(tmp_path / "short")
    with pytest.raises(
        ValueError,
        match=r"train: got torch.int64 of shape .*, expected a non-empty uint8 tensor of shape \[N\]",
    ):
        ByteCorpus("d", torch.arange(3), corpus.validation, "", (), ())


def test_repr_is_one_short_line() -> None:
    text = repr(ByteCorpus.from_documents("d", many()))
    assert "\n" not in text
    assert "40 files" in text
    assert len(text) < 150


def test_a_text_of_one_long_line_is_cut_inside_it(tmp_path: Path) -> None:
    """A title and one endless line: the validation share must not swallow the text."""
    file = tmp_path / "book.txt"
    file.write_bytes(b"title\n" + b"abcdefgh" * 5000)
    corpus = ByteCorpus.from_path(file, validation_fraction=0.1)
    assert 0.05 * corpus.n_bytes < len(corpus.validation) < 0.2 * corpus.n_bytes
