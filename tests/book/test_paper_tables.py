"""The paper's tables as data: they agree with each other where the paper's do, and where not, it is known."""

from statistics import mean
from typing import Any

import pytest

from linattn_book import results
from linattn_ref.costs.paper import ARCHITECTURES

TABLES = [name for name in results.names() if name.startswith("paper_")]


def table(name: str) -> list[dict[str, Any]]:
    return results.load(name)


RESULTS = {(row["architecture"], row["size"]): row for row in table("paper_results")}


def test_every_table_of_the_paper_is_marked_as_theirs() -> None:
    assert len(TABLES) == 8
    for name in TABLES:
        assert results.provenance(name)["source"].startswith("arXiv 2406.16690, ")
        assert results.describe(name).startswith("measured by others: arXiv 2406.16690")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_every_architecture_as_often(name: str) -> None:
    rows = table(name)
    counts = {a: sum(row["architecture"] == a for row in rows) for a in ARCHITECTURES}
    there = {count for count in counts.values() if count}
    assert len(there) == 1
    assert sum(counts.values()) == len(rows)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_means_over_tasks_are_those_of_table_4(architecture: str) -> None:
    for name, column, mark in (
        ("paper_common_sense", "csr", "accuracy"),
        ("paper_scrolls", "scrolls", "score"),
    ):
        marks = [row[mark] for row in table(name) if row["architecture"] == architecture]
        assert mean(marks) == pytest.approx(RESULTS[architecture, "7B"][column], abs=0.0051)


def test_retrieval_is_that_of_table_4() -> None:
    for row in table("paper_niah"):
        if row["mode"] == "easy":
            assert row["weighted"] == RESULTS[row["architecture"], row["size"]]["niah"]


@pytest.mark.parametrize("architecture", ["llama", "cosformer2"])
def test_the_1b_row_of_table_4_is_made_of_two_shapes(architecture: str) -> None:
    shapes = {row["d_model"]: row for row in table("paper_shape") if row["architecture"] == architecture}
    row = RESULTS[architecture, "1B"]
    assert row["csr"] == shapes[2048]["csr"] != shapes[1536]["csr"]
    assert row["niah"] == shapes[1536]["niah_easy"] != shapes[2048]["niah_easy"]
    assert row["scrolls"] == shapes[1536]["scrolls"]


def test_exponents_of_parameters_and_tokens_do_not_add_up_to_one() -> None:
    laws = {(row["architecture"], row["law"]): row["exponent"] for row in table("paper_fits")}
    sums = [laws[a, "parameters"] + laws[a, "tokens"] for a in ARCHITECTURES]
    assert sums == pytest.approx([1.222, 1.1154, 1.0927, 1.1045], abs=1e-4)
