"""Tasks of recall: what is asked for was there, once, at the place that was wanted."""

import itertools
import re
from typing import Any

import pytest
import torch

from linattn_ref.training.tasks import (
    IGNORED,
    insert_needles,
    make_needle,
    multi_query_recall,
    recall_accuracy,
)

TEXT = torch.frombuffer(
    bytearray(b"Some words, and a line.\nMore of it follows here. " * 60), dtype=torch.uint8
)


def drawn(seed: int = 0, **options: Any) -> Any:
    """Return inputs and targets of multi-query recall, of small sizes unless told."""
    sizes: dict[str, Any] = {"batch_size": 16, "seq_len": 64, "n_pairs": 8, "vocab_size": 64} | options
    return multi_query_recall(**sizes, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("n_passes", [1, 2])
@pytest.mark.parametrize("random_fillers", [True, False])
def test_every_key_is_asked_for_once_and_answered_by_its_value(n_passes: int, random_fillers: bool) -> None:
    inputs, targets = drawn(n_passes=n_passes, random_fillers=random_fillers)
    context = 16 * n_passes
    for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
        for p in range(n_passes):
            assert row[16 * p : 16 * p + 16] == row[:16]
        pairs = dict(zip(row[:16:2], row[1:16:2], strict=True))
        assert len(pairs) == len(set(pairs.values())) == 8
        assert all(0 < key < 32 <= value < 64 for key, value in pairs.items())
        asked = [t for t, target in enumerate(wanted) if target != IGNORED]
        assert sorted(row[t] for t in asked) == sorted(pairs)
        assert all(wanted[t] == pairs[row[t]] for t in asked)
        assert all(t >= context and t % 2 == 0 for t in asked)
        if not random_fillers:
            assert all(row[t] == 0 for t in range(context, 64) if t not in asked)


def test_most_keys_are_asked_for_soon_and_evenly_with_a_power_of_one() -> None:
    def early(power: float) -> float:
        _, targets = drawn(batch_size=400, seq_len=272, n_pairs=4, power=power)
        places = (targets != IGNORED).nonzero()[:, 1]
        return ((places - 8) < 132).float().mean().item()

    assert early(1.0) == pytest.approx(0.5, abs=0.05)
    assert early(0.01) > 0.75


def test_the_generator_decides() -> None:
    assert torch.equal(drawn(1).inputs, drawn(1).inputs)
    assert not torch.equal(drawn(1).inputs, drawn(2).inputs)


def test_accuracy_counts_what_is_asked_for_alone() -> None:
    targets = torch.tensor([[IGNORED, 3, IGNORED, 1]])
    logits = torch.nn.functional.one_hot(torch.tensor([[0, 3, 0, 2]]), 4).float()
    assert recall_accuracy(logits, targets) == 0.5
    with pytest.raises(ValueError, match="got none that is asked for"):
        recall_accuracy(logits, torch.full_like(targets, IGNORED))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seq_len": 31}, "seq_len: got 31, expected 32 at least for 8 pairs in 1 passes"),
        ({"seq_len": 47, "n_passes": 2}, "expected 48 at least"),
        ({"vocab_size": 16}, "vocab_size: got 16, expected 18 at least"),
        ({"n_pairs": 0}, "expected at least 1"),
        ({"power": 0.0}, "a power above 0"),
    ],
)
def test_recall_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawn(**options)


@pytest.mark.parametrize("mode", ["easy", "standard"])
@pytest.mark.parametrize("depth", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("length", [180, 1024])
def test_a_needle_is_where_it_was_wanted_and_is_asked_for(mode: Any, depth: float, length: int) -> None:
    prompt, answer = make_needle(TEXT, length, depth, torch.Generator().manual_seed(3), mode=mode)
    text, number = bytes(prompt.tolist()), bytes(answer.tolist())
    assert len(text) == length
    assert len(number) == 6
    assert text.count(number) == 1
    assert number.isdigit()
    question = text[text.rindex(b"\nWhat is") :]
    assert text.count(question) == (2 if mode == "easy" else 1)
    key = question.split()[-2]
    assert b"The number of " + key + b" is " + number + b"." in text
    planted = text.index(question if mode == "easy" else b"\nThe number of")
    hay = length - len(question) - (text.index(number) + 8 - planted)
    assert depth * hay - 14 <= planted <= depth * hay  # a word further back at most
    rest = text[:planted] + text[text.index(number) + 8 : -len(question)]
    assert rest in bytes(TEXT.tolist())


def test_a_text_with_a_needle_is_read_twice() -> None:
    prompt, answer = make_needle(TEXT, 501, 0.5, torch.Generator().manual_seed(3), n_passes=2)
    text = bytes(prompt.tolist())
    assert len(text) in (500, 501)
    context = text[: text.rindex(b"\nWhat is")]
    assert context[: len(context) // 2] == context[len(context) // 2 :]
    assert context.count(bytes(answer.tolist())) == 2


@pytest.mark.parametrize("n", [1, 4])
def test_a_text_to_learn_needles_from(n: int) -> None:
    """Without its needles it is the text; each is before its question, in the same stretch."""
    text = TEXT.repeat(10)
    found = bytes(insert_needles(text, 512, torch.Generator().manual_seed(0), n).tolist())
    sentence = rb"\n(What is the number of \w+\? )?The number of (\w+) is (\d{6})\.\n"
    assert re.sub(sentence, b"", found) == bytes(text.tolist())
    pairs: dict[bytes, list[re.Match[bytes]]] = {}
    for one in re.finditer(sentence, found):
        pairs.setdefault(one[2], []).append(one)
    n_needles = n * (len(text) // 512)
    assert len(pairs) == n_needles
    assert 0.2 * n_needles < sum(planted[1] is not None for planted, _ in pairs.values()) < 0.8 * n_needles
    between = []
    for planted, asked in pairs.values():
        assert asked[1] is not None
        assert asked[3] == planted[3]
        between.append(len(re.sub(sentence, b"", found[planted.end() : asked.start()])))
    assert max(between) <= 512
    assert len({length // 64 for length in between}) > 3


def test_needles_stand_among_each_other() -> None:
    found = bytes(insert_needles(TEXT, 512, torch.Generator().manual_seed(0), 4).tolist())
    keys = re.findall(rb"The number of (\w+) is", found)
    assert sum(a != b for a, b in itertools.pairwise(keys)) > len(keys) // 2


@pytest.mark.parametrize(("every", "n"), [(10, 1), (512, 0)])
def test_a_text_without_room_for_needles_is_refused(every: int, n: int) -> None:
    with pytest.raises(ValueError, match=f"every, n: got {every} and {n}, expected at least 64 and 1"):
        insert_needles(TEXT, every, torch.Generator(), n)


def test_a_needle_that_cannot_be_is_refused() -> None:
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(ValueError, match="mode: got 'hard', expected easy or standard"):
        make_needle(TEXT, 500, 0.5, generator, mode="hard")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"depth: got 1\.5"):
        make_needle(TEXT, 500, 1.5, generator)
    with pytest.raises(ValueError, match="n_passes: got 0"):
        make_needle(TEXT, 500, 0.5, generator, n_passes=0)
    for text, length in ((TEXT, 50), (TEXT[:100], 500)):
        with pytest.raises(ValueError, match="length: got"):
            make_needle(text, length, 0.5, generator)
