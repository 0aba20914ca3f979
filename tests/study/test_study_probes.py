"""What a finished model is asked, against counting by hand and models that know the answers."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot, pad

import tests.study.study_helpers as s
from linattn_ref.training.tasks import insert_needles
from linattn_study import corpora, loop, probes


def test_ranges_of_positions_cover_a_sequence_once() -> None:
    assert list(probes.iterate_ranges(11)) == [(0, 1), (1, 2), (2, 4), (4, 8), (8, 11)]
    assert list(probes.iterate_ranges(8, half=True)) == [(0, 1), (1, 2), (2, 4), (4, 5), (5, 6), (6, 8)]


def test_probes_are_losses_by_position(tmp_path: Path) -> None:
    where = s.settings(tmp_path)
    text = corpora.load("words", where.corpora)
    trained = loop.Loop(s.TINY, text, torch.device("cpu"), "reference")
    trained.advance(3)
    rows = probes.probe(trained)
    lengths = {(row["probe"], row["length"]) for row in rows if "needle" not in row["probe"]}
    strings = {(name, length) for name in ("repeated", "new") for length in (32, 128)}
    assert lengths == {("text", 32), ("text", 128), ("twice", 32)} | strings
    ours = [row for row in rows if (row["probe"], row["length"]) == ("text", 32)]
    whole = sum((row["last"] + 1 - row["first"]) * row["loss"] for row in ours) / 32
    assert whole == pytest.approx(trained.evaluate(), rel=1e-5)  # the same windows
    split = [row for row in rows if row["probe"] in ("repeated", "new") and row["length"] == 128]
    assert sum(row["share"] for row in split) == pytest.approx(1)
    assert min(row["share"] for row in split) > 0.1
    long = [row for row in rows if (row["probe"], row["length"]) == ("text", 128)]
    whole = sum((row["last"] + 1 - row["first"]) * row["loss"] for row in long) / 128
    assert sum(row["share"] * row["loss"] for row in split) == pytest.approx(whole, rel=1e-5)

    row = next(row for row in rows if row["probe"] == "twice" and row["first"] == 16 + 4)
    n = s.TINY.validation_tokens // 32
    starts = torch.arange(n) * ((len(text.validation) - 33) // (n - 1))
    half = torch.stack([text.validation[i : i + 16] for i in starts]).long()
    with torch.no_grad():
        logits, _ = trained.model(torch.cat([half, half], 1))
    by_hand = torch.nn.functional.cross_entropy(logits[:, 20:24].flatten(0, 1), half[:, 5:9].flatten())
    assert row["loss"] == pytest.approx(by_hand.item(), rel=1e-4)


def test_a_model_that_looks_up_is_seen_to(tmp_path: Path) -> None:
    """A model that copies what stood half a window ago knows the second half, and not the first."""
    trial = s.TINY
    text = corpora.load("words", s.settings(tmp_path).corpora)
    asked = loop.Loop(trial, text, torch.device("cpu"), "reference")

    class Copies(torch.nn.Module):
        def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, None]:
            back = pad(tokens, (15, 0))[:, : tokens.shape[1]]  # what followed it there
            return 20.0 * one_hot(back, 256), None

    asked.model = Copies()  # type: ignore[assignment]
    twice = [row for row in probes.probe(asked) if row["probe"] == "twice"]
    assert max(row["loss"] for row in twice if row["first"] >= 16) < 1e-4
    assert min(row["loss"] for row in twice if 2 <= row["first"] < 15) > 1


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_strings_seen_before(n: int) -> None:
    generator = torch.Generator().manual_seed(0)
    windows = torch.randint(3, (4, 40), generator=generator, dtype=torch.uint8)
    windows[0] = 7
    seen = probes.mark_seen_before(windows, n)
    for row, found in zip(windows.tolist(), seen.tolist(), strict=True):
        strings = [tuple(row[i - n + 1 : i + 1]) if i >= n - 1 else None for i in range(len(row))]
        assert found == [string is not None and string in strings[:i] for i, string in enumerate(strings)]


@pytest.mark.parametrize("reads", [True, False])
def test_a_model_that_reads_finds_every_needle(reads: bool, tmp_path: Path) -> None:
    text = corpora.load("words", s.settings(tmp_path).corpora)
    trial = dataclasses.replace(s.TINY, seq_len=512, tokens=4096)
    asked = loop.Loop(trial, text, torch.device("cpu"), "reference")

    class Reads(torch.nn.Module):
        def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, None]:
            logits = torch.zeros(*tokens.shape, 256)
            for row, x in zip(tokens, logits, strict=True):
                prompt = bytes(row.tolist()).decode()
                key = re.findall(r"The number of (\w+) is ", prompt)[-1] if "number of" in prompt else ""
                answer = re.search(rf"The number of {key} is (\d+)\.", prompt)
                if key and answer:
                    digits = answer[1] if reads else answer[1][::-1]
                    x[-6:] = 20.0 * one_hot(torch.tensor(list(digits.encode())), 256)
            return logits, None

    asked.model = Reads()  # type: ignore[assignment]
    rows = [row for row in probes.probe(asked) if row["probe"].startswith("needle")]
    assert {(row["probe"], row["length"]) for row in rows} >= {
        (name, length) for name in probes.NEEDLES for length in (512, 1024, 2048)
    }
    assert {row["depth"] for row in rows} == set(probes.DEPTHS)
    assert all((row["accuracy"] == 1) == reads and (row["loss"] < 1e-3) == reads for row in rows)


def test_half_of_the_needles_share_a_window_with_their_question() -> None:
    text = torch.randint(97, 123, (2_000_000,), generator=torch.Generator().manual_seed(0)).byte()
    text[::6] = 32
    found = bytes(insert_needles(text, 1024, torch.Generator().manual_seed(0), 4).tolist())
    ends: dict[bytes, list[int]] = {}
    for one in re.finditer(rb"The number of (\w+) is \d{6}", found):
        ends.setdefault(one[1], []).extend(one.span())
    spans = np.array([places[-1] - places[0] for places in ends.values()])
    share = np.clip(1 - spans / 1024, 0, None).mean()
    assert share == pytest.approx(1 / 2, abs=0.04)
