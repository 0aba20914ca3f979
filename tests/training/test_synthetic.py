"""Small tasks: what is asked for follows from what stands before, and from nothing else."""

import pytest
import torch

from linattn_ref.training.tasks.recall import IGNORED, Recall
from linattn_ref.training.tasks.synthetic import (
    FILLER,
    FIRST,
    MARK,
    count_since_mark,
    induction_heads,
    parity,
    reset_on_mark,
    selective_copy,
)


def draw(make, *sizes: int, seed: int = 0, **options) -> Recall:
    return make(*sizes, torch.Generator().manual_seed(seed), **options)


def test_a_mark_empties_the_memory():
    inputs, targets = draw(reset_on_mark, 8, 200, every=6, mark_every=9)
    for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
        held = FILLER
        for token, target in zip(row, wanted, strict=True):
            held = {FILLER: held, MARK: FILLER}.get(token, token)
            assert target == held
    assert (inputs >= FIRST).float().mean().item() == pytest.approx(1 / 6, abs=0.03)
    assert (inputs == MARK).float().mean().item() == pytest.approx(1 / 9, abs=0.03)


def test_a_count_begins_anew_at_each_mark():
    inputs, targets = draw(count_since_mark, 8, 200, classes=5, every=3, mark_every=12)
    for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
        count = 0
        for token, target in zip(row, wanted, strict=True):
            count = {FILLER: count, MARK: 0, FIRST: count + 1}[token]
            assert target == min(count, 4)
    assert (inputs == FIRST).float().mean().item() == pytest.approx(1 / 3, abs=0.03)


@pytest.mark.parametrize("fixed", [False, True])
def test_what_stood_among_fillers_is_said_again_in_order(fixed):
    inputs, targets = draw(selective_copy, 20, 40, 6, fixed=fixed)
    assert (targets[:, :34] == IGNORED).all()
    assert (inputs[:, 34:] == MARK).all()
    for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
        assert [token for token in row if token >= FIRST] == wanted[34:]
    places = {tuple((row >= FIRST).nonzero()[:, 0].tolist()) for row in inputs}
    assert (len(places) == 1) is fixed


def test_the_token_after_the_mark_is_asked_for_at_the_second():
    inputs, targets = draw(induction_heads, 50, 12)
    for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
        assert row.count(MARK) == 2
        assert row[-1] == MARK
        assert wanted == [IGNORED] * 11 + [row[row.index(MARK) + 1]]
    assert len(set((inputs[:, :-1] == MARK).nonzero()[:, 1].tolist())) > 5


def test_parity_is_that_of_all_bits_so_far():
    inputs, targets = draw(parity, 4, 30)
    assert targets.tolist() == [[sum(row[: t + 1]) % 2 for t in range(30)] for row in inputs.tolist()]


@pytest.mark.parametrize(
    ("make", "sizes", "options", "says"),
    [
        (reset_on_mark, (0, 8), {}, "batch_size, seq_len: got 0, 8"),
        (reset_on_mark, (1, 8), {"every": 1.0}, "every, mark_every: got 1.0, 32.0"),
        (reset_on_mark, (1, 8), {"vocab_size": 2}, "vocab_size: got 2"),
        (selective_copy, (1, 8, 5), {}, "n_tokens: got 5, expected 1 to 4"),
        (induction_heads, (1, 3), {}, "seq_len: got 3"),
        (parity, (1, 0), {}, "batch_size, seq_len: got 1, 0"),
    ],
)
def test_sizes_that_cannot_be_are_named(make, sizes, options, says):
    with pytest.raises(ValueError, match=says):
        draw(make, *sizes, **options)


@pytest.mark.parametrize("make", [reset_on_mark, induction_heads, parity])
def test_the_generator_decides(make):
    assert torch.equal(draw(make, 2, 20, seed=1).inputs, draw(make, 2, 20, seed=1).inputs)
    assert not torch.equal(draw(make, 2, 20, seed=1).inputs, draw(make, 2, 20, seed=2).inputs)
