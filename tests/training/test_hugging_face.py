"""A corpus out of a Hugging Face dataset, without the network and without the package."""

import builtins
import sys
import types

import pytest

from linattn_ref.training.tasks import ByteCorpus


def test_hugging_face_without_the_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without_datasets(name: str, *args: object, **kwargs: object) -> types.ModuleType:
        if name == "datasets":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.delitem(sys.modules, "datasets", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_datasets)
    with pytest.raises(ImportError, match=r"pip install datasets.*from_path\(\)"):
        ByteCorpus.from_hugging_face("some/text")


class FakeHub(types.ModuleType):
    """Stands in for `datasets`: records what was asked for, and gives rows or fails as told."""

    def __init__(self, rows: list[dict[str, object]], error: Exception | None = None) -> None:
        super().__init__("datasets")
        self.rows, self.error, self.read = rows, error, 0
        self.asked: tuple[object, ...] = ()

    def load_dataset(self, name: str, subset: str | None, *, split: str, streaming: bool) -> object:
        self.asked = (name, subset, split, streaming)
        if self.error is not None:
            raise self.error
        return self.stream()

    def stream(self) -> object:
        for row in self.rows:
            self.read += 1
            yield row


def test_hugging_face_rows_become_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = FakeHub([{"text": f"row {i} über\n" * 10} for i in range(50)])
    monkeypatch.setitem(sys.modules, "datasets", hub)
    corpus = ByteCorpus.from_hugging_face("some/text", subset="raw", split="test")
    assert hub.asked == ("some/text", "raw", "test", False)
    assert (corpus.name, corpus.n_files) == ("some/text/raw", 50)
    assert corpus.n_bytes == sum(len(str(row["text"]).encode()) for row in hub.rows)
    part = ByteCorpus.from_hugging_face("some/text", max_bytes=1000)
    assert hub.asked == ("some/text", None, "train", True)
    assert part.n_bytes == 1000
    assert hub.read < 50 + 15  # reading stopped when there was enough


def test_hugging_face_errors_name_the_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", FakeHub([{"text": "a", "n": 1}]))
    with pytest.raises(ValueError, match=r"column: got 'body', expected one of \['n', 'text'\]"):
        ByteCorpus.from_hugging_face("some/text", column="body")
    with pytest.raises(ValueError, match="column: got int in row 0, expected text in 'n'"):
        ByteCorpus.from_hugging_face("some/text", column="n")
    monkeypatch.setitem(sys.modules, "datasets", FakeHub([], error=FileNotFoundError("no such host")))
    with pytest.raises(ConnectionError, match=r"'some/text' could not be read .*offline.*no such host"):
        ByteCorpus.from_hugging_face("some/text")
