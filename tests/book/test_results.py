"""What is saved comes back as it was, a failure leaves what was there, every committed result is whole."""

import json
import os
import re
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from linattn_book import results

ROWS: list[dict[str, Any]] = [
    {"T": 1024, "op": "softmax, parallel", "ms": 1.0, "note": 'a "quoted" word'},
    {"T": -2, "op": "chunk", "ms": 1e-05, "note": None},
    {"T": 0, "op": "70M", "ms": 0.1 + 0.2, "note": "µs → s"},
]
COLUMNS = {"T": "tokens", "op": "name of the op", "ms": "milliseconds, median of 20", "note": "free text"}
ARGUMENTS: dict[str, Any] = {"columns": COLUMNS, "command": "make bench", "seed": 0, "source_hash": "ab12"}


def save(directory: Path, rows: list[dict[str, Any]] = ROWS, name: str = "speed", **changes: Any) -> None:
    results.save(name, rows, **ARGUMENTS | {"directory": directory} | changes)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


# --- round trip --------------------------------------------------------------------------------------------


def test_rows_come_back_with_their_values_and_types(tmp_path: Path) -> None:
    save(tmp_path)
    loaded = results.load("speed", directory=str(tmp_path))
    assert loaded == ROWS
    assert [[type(x) for x in row.values()] for row in loaded] == [
        [type(x) for x in row.values()] for row in ROWS
    ]


def test_columns_keep_their_declared_order(tmp_path: Path) -> None:
    save(tmp_path, [dict(reversed(row.items())) for row in ROWS])
    assert list(results.load("speed", directory=tmp_path)[0]) == list(COLUMNS)


def test_an_empty_only_column_keeps_its_rows(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"x": None}, {"x": None}]
    save(tmp_path, rows, columns={"x": "nothing"})
    assert results.load("speed", directory=tmp_path) == rows


def test_scalars_of_numpy_and_torch_are_numbers(tmp_path: Path) -> None:
    save(tmp_path, [{"a": np.int64(3), "b": torch.tensor(0.5)}], columns={"a": "count", "b": "share"})
    assert results.load("speed", directory=tmp_path) == [{"a": 3, "b": 0.5}]


def test_provenance_tells_how_a_result_came_about(tmp_path: Path) -> None:
    save(tmp_path, seed=7, device="NVIDIA H200")
    p = results.provenance("speed", directory=tmp_path)
    assert p["columns"] == COLUMNS
    assert (p["command"], p["seed"], p["source_hash"], p["n_rows"]) == ("make bench", 7, "ab12", 3)
    assert p["device"] == "NVIDIA H200"
    assert p["versions"]["torch"] == torch.__version__
    assert p["versions"]["numpy"] == np.__version__
    assert re.fullmatch(r"3\.\d+\.\d+\S*", p["versions"]["python"])
    assert abs((date.fromisoformat(p["date"]) - date.today()).days) <= 1


def test_the_device_is_found_when_none_is_given(tmp_path: Path) -> None:
    save(tmp_path)
    device = results.provenance("speed", directory=tmp_path)["device"]
    assert device.endswith("(CPU)") != torch.cuda.is_available()
    assert len(device) > len(" (CPU)")


def test_a_caption_names_device_date_version_and_command(tmp_path: Path) -> None:
    save(tmp_path, device="NVIDIA H200")
    day = results.provenance("speed", directory=tmp_path)["date"]
    expected = f"measured on NVIDIA H200, {day}, torch {torch.__version__}\n  make bench"
    assert results.describe("speed", directory=tmp_path) == expected


def test_what_others_printed_is_cited(tmp_path: Path) -> None:
    results.cite("theirs", ROWS, columns=COLUMNS, source="arXiv 2406.16690, Table 3", directory=tmp_path)
    save(tmp_path)
    assert results.load("theirs", directory=tmp_path) == ROWS
    assert results.provenance("theirs", directory=tmp_path) == {
        "columns": COLUMNS,
        "source": "arXiv 2406.16690, Table 3",
        "n_rows": 3,
    }
    assert results.describe("theirs", directory=tmp_path) == "measured by others: arXiv 2406.16690, Table 3"


@pytest.mark.parametrize(
    ("argument", "value"), [("source", " "), ("rows", []), ("columns", {}), ("name", "Theirs")]
)
def test_a_wrong_citation_is_named_and_nothing_is_written(tmp_path: Path, argument: str, value: Any) -> None:
    arguments = {"name": "theirs", "rows": ROWS, "columns": COLUMNS, "source": "arXiv 2406.16690, Table 3"}
    with pytest.raises(ValueError, match=f"{argument}: got"):
        results.cite(**arguments | {argument: value}, directory=tmp_path)
    assert contents(tmp_path) == {}


def test_results_are_listed_and_replaced_by_name(tmp_path: Path) -> None:
    assert results.names(directory=tmp_path) == []
    save(tmp_path, name="speed")
    save(tmp_path, name="memory")
    save(tmp_path, ROWS[:1], name="speed")
    assert results.names(directory=tmp_path) == ["memory", "speed"]
    assert len(results.load("speed", directory=tmp_path)) == 1
    assert len(results.load("memory", directory=tmp_path)) == 3


def test_saving_the_same_rows_again_gives_the_same_bytes(tmp_path: Path) -> None:
    save(tmp_path)
    before = contents(tmp_path)
    save(tmp_path)
    assert contents(tmp_path) == before
    assert b"\r" not in before["speed.csv"]


# --- nothing is half written -------------------------------------------------------------------------------


def test_an_error_while_writing_leaves_both_files_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path)
    before, flush, calls = contents(tmp_path), os.fsync, []

    def full_disk(number: int) -> None:
        calls.append(number)
        if len(calls) == 2:
            raise OSError("no space left on device")
        flush(number)

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        save(tmp_path, ROWS[:1])
    assert contents(tmp_path) == before


def test_stopped_between_the_two_files_the_old_index_is_valid_and_the_mismatch_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, name="memory")
    save(tmp_path)
    replace = os.replace

    def stopped(source: Path, target: Path) -> None:
        if target.name == "index.json":
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stopped)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, ROWS[:1])
    assert set(contents(tmp_path)) == {"index.json", "memory.csv", "speed.csv"}
    assert results.load("memory", directory=tmp_path) == ROWS
    with pytest.raises(ValueError, match=r"speed\.csv"):
        results.load("speed", directory=tmp_path)
    save(tmp_path)
    assert results.load("speed", directory=tmp_path) == ROWS


BAD_CELLS = [float("nan"), float("inf"), np.float64("-inf"), torch.tensor(torch.nan), True, [1], "12", "1e5"]


@pytest.mark.parametrize("value", [*BAD_CELLS, "two\nlines"], ids=repr)
def test_a_cell_that_would_not_come_back_is_refused_by_row_and_column(tmp_path: Path, value: Any) -> None:
    save(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"rows\[1\]\['ms'\]: got "):
        save(tmp_path, [ROWS[0], ROWS[1] | {"ms": value}])
    assert contents(tmp_path) == before


WRONG_ROWS = {
    "undeclared": ROWS[0] | {"extra": 1},
    "missing": {k: v for k, v in ROWS[0].items() if k != "ms"},
}


@pytest.mark.parametrize("row", WRONG_ROWS.values(), ids=WRONG_ROWS)
def test_columns_must_be_exactly_the_declared_ones(tmp_path: Path, row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"rows\[1\]: got .* declared columns .*'ms'"):
        save(tmp_path, [ROWS[0], row])
    assert contents(tmp_path) == {}


WRONG_ARGUMENTS: list[tuple[str, Any]] = [
    ("name", "../speed"),
    ("name", "Speed"),
    ("rows", []),
    ("columns", {}),
    ("columns", COLUMNS | {"ms": " "}),
    ("command", ""),
    ("command", "python /opt/somewhere/bench.py"),
    ("command", "python bench.py --out=~/results"),
]


@pytest.mark.parametrize(("argument", "value"), WRONG_ARGUMENTS)
def test_a_wrong_argument_is_named_and_nothing_is_written(tmp_path: Path, argument: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{argument}: got"):
        save(tmp_path, **{argument: value})
    assert contents(tmp_path) == {}


def test_a_command_may_name_relative_paths(tmp_path: Path) -> None:
    save(tmp_path, command="python kernels/benchmarks/run.py --dtypes bf16/fp32 --out build/x")
    assert results.names(directory=tmp_path) == ["speed"]


@pytest.mark.parametrize("read", [results.load, results.provenance, results.describe])
def test_an_unknown_name_lists_what_exists(tmp_path: Path, read: Any) -> None:
    save(tmp_path, name="memory")
    with pytest.raises(ValueError, match=r"name: got 'sped', expected one of \['memory'\]"):
        read("sped", directory=tmp_path)


def test_a_row_of_another_length_is_no_row(tmp_path: Path) -> None:
    save(tmp_path)
    path = tmp_path / "speed.csv"
    path.write_text(path.read_text("utf-8").replace("-2,chunk", "-2,chunk,1"), "utf-8")
    with pytest.raises(ValueError, match="longer"):
        results.load("speed", directory=tmp_path)


# --- what is committed -------------------------------------------------------------------------------------

FOLDER = Path(results.__file__).parent
MACHINE_PATH = re.compile(r"(?:^|[\s='\"(:,])(?:~?/[A-Za-z]\w*|[A-Za-z]:\\)")
KEYS = {"columns", "command", "seed", "source_hash", "commit", "device", "versions", "date", "n_rows"}


@pytest.mark.check
def test_the_index_and_the_files_name_the_same_results() -> None:
    assert results.names() == sorted(path.stem for path in FOLDER.glob("*.csv"))
    assert list(json.loads((FOLDER / "index.json").read_text("utf-8"))) == results.names()


def test_every_committed_result_is_whole_and_says_where_it_is_from() -> None:
    for name in results.names():
        p, rows = results.provenance(name), results.load(name)
        assert len(rows) == p["n_rows"] > 0, name
        assert all(list(row) == list(p["columns"]) for row in rows), name
        assert all(meaning.strip() for meaning in p["columns"].values()), name
        if set(p) == {"columns", "source", "n_rows"}:
            assert re.match(r"arXiv \d{4}\.\d{5}, ", p["source"]), name
            continue
        assert set(p) | {"commit"} == KEYS, name  # tables of November 2026 and before have none
        assert all(p[key].strip() for key in ("command", "device", "source_hash")), name
        assert {"python", "torch", "numpy"} <= set(p["versions"]), name
        if "seed" in p["columns"]:
            assert set(np.atleast_1d(p["seed"])) == {row["seed"] for row in rows}, name
        assert date.fromisoformat(p["date"]) >= date(2025, 1, 1), name
        assert p["device"] in results.describe(name)


def test_no_committed_result_names_a_path_of_the_machine_it_was_measured_on() -> None:
    for path in [FOLDER / "index.json", *FOLDER.glob("*.csv")]:
        found = MACHINE_PATH.search(path.read_text("utf-8"))
        assert found is None, f"{path.name}: {found}"


@pytest.mark.parametrize("text", ["python /usr/bin/x", "--out=~/x", 'a,"/data/x"', "C:\\x"])
def test_the_search_for_machine_paths_finds_them(text: str) -> None:
    assert MACHINE_PATH.search(text)


def test_reading_results_needs_no_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert results.names() == sorted(path.stem for path in FOLDER.glob("*.csv"))
