"""The registry of disagreements: both sides run, differ where we say so, and the page says by how much."""

import inspect
import re
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from linattn_book.builders.disagreements import format_value, render_page
from linattn_book.disagreements import DISAGREEMENTS, find, measure

ROOT = Path(__file__).parents[2]
ENTRIES = pytest.mark.parametrize("entry", DISAGREEMENTS, ids=lambda entry: entry.key)
SPECIAL = [entry for entry in DISAGREEMENTS if entry.equal_inputs]
# A docstring says where to look: a paper with an equation, section or table, or a file.
SOURCE = re.compile(r"^[\w.' -]+.*(arXiv \d{4}\.\d{5}|/\w+\.py|cosformer\.py|fla/ops|transformers|figure)")


def drawn(inputs):
    return inputs(torch.Generator().manual_seed(0))


@ENTRIES
def test_the_two_differ(entry):
    assert measure(entry) > 1e-2, "a disagreement that cannot be seen is none"


@ENTRIES
def test_both_give_finite_numbers_of_one_shape(entry):
    with torch.no_grad():
        one, other = (f(*drawn(entry.inputs)) for f in (entry.one, entry.other))
    assert one.shape == other.shape
    assert one.dtype == other.dtype
    assert one.isfinite().all()
    assert other.isfinite().all()
    assert other.numel() > 0


@pytest.mark.parametrize("entry", SPECIAL, ids=lambda entry: entry.key)
def test_the_two_agree_in_the_special_case(entry):
    assert measure(entry, entry.equal_inputs) < 1e-12
    with torch.no_grad():
        results = entry.other(*drawn(entry.equal_inputs))
    growth = entry.key == "cosformer-length"  # compares movements: none is the claim
    assert results.abs().max() > 1e-3 or growth, "two results of zero agree about nothing"


@ENTRIES
def test_measuring_is_repeatable_and_far_from_a_rounding_boundary(entry):
    value = measure(entry)
    assert measure(entry) == value
    assert format_value(value * (1 - 1e-6)) == format_value(value) == format_value(value * (1 + 1e-6))


@ENTRIES
def test_every_entry_is_complete(entry):
    for function in (entry.one, entry.other):
        assert SOURCE.match(inspect.getdoc(function) or ""), f"{function.__name__} names no source"
        assert "\n" not in (inspect.getdoc(function) or "")
    for text in (entry.title, entry.what, entry.ours, entry.unit, entry.subject):
        assert text.strip() == text != ""
    assert bool(entry.equal_when) == (entry.equal_inputs is not None)
    assert entry.what.endswith(".")
    assert entry.ours.endswith(".")
    assert not any("|" in text for text in (entry.what, entry.ours, entry.unit, entry.title))


def test_keys_are_unique_and_found():
    keys = [entry.key for entry in DISAGREEMENTS]
    assert len(set(keys)) == len(keys)
    assert [find(key).key for key in keys] == keys
    with pytest.raises(ValueError, match=r"key: got 'slopes', expected one of \['cosformer-length'"):
        find("slopes")


def test_subjects_stand_together():
    subjects = [entry.subject for entry in DISAGREEMENTS]
    changes = sum(a != b for a, b in pairwise(subjects))
    assert changes + 1 == len(set(subjects))


@pytest.mark.check
def test_the_page_is_what_is_measured():
    text = (ROOT / "book" / "disagreements.md").read_text(encoding="utf-8")
    assert text == render_page(ROOT)
    for entry in DISAGREEMENTS:
        (number,) = re.findall(rf"\(`{entry.key}`\): (\S+)", text)
        assert float(number.replace(",", "")) == pytest.approx(measure(entry), rel=5e-3)


# --- what single entries claim in words ---------------------------------------------------------------------


def results(key):
    entry = find(key)
    with torch.no_grad():
        return [f(*drawn(entry.inputs)) for f in (entry.one, entry.other)]


def test_the_plain_bound_kills_the_top_layer_and_the_released_one_does_not():
    plain, released = results("hgrn2-bound")
    assert plain[-1].abs().max() < 1e-12
    assert (released > 0.2).all()
    assert (released[0] == 1).all()


def test_the_key_in_float32_is_lost():
    lost, kept = results("hgrn2-key")
    assert lost.dtype == torch.float32
    assert (lost == 0).all()
    assert (kept > 0).all()


def test_half_lives_of_the_slopes():
    printed, released = results("tnl-slopes")
    assert printed.max() < 1
    assert released.min() == pytest.approx(1.386, abs=1e-3)
    assert released.max() == pytest.approx(177.4, abs=0.1)


def test_the_first_head_of_the_ramp_never_forgets():
    printed, fla = results("tnl-ramp")
    assert fla[0] == 1
    assert (printed < 0.41).all()


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16, 32])
def test_slopes_agree_for_every_power_of_two(heads):
    assert measure(find("tnl-heads"), lambda g: (heads,)) == 0


@pytest.mark.parametrize("heads", [3, 5, 6, 7, 12, 20, 24])
def test_slopes_differ_for_every_other_number(heads):
    assert measure(find("tnl-heads"), lambda g: (heads,)) > 0.5


@pytest.mark.parametrize("block", [1, 4, 5, 10, 20])
def test_every_block_that_divides_the_length_gives_the_same_state(block):
    entry = find("lightning-last-block")
    assert measure(entry, lambda g: (*entry.inputs(g)[:3], block)) == 0


def test_a_constant_length_leaves_the_past_alone():
    moved, still = results("cosformer-length")
    assert still.abs().max() < 1e-15
    assert moved.abs().max() > 0.01


def test_the_missing_term_of_the_chunk_form_is_the_one_named():
    entry = find("hla-chunk")
    q, k, v = drawn(entry.inputs)
    figure, whole = results("hla-chunk")
    S = k[:8].mT @ k[:8]
    missing = (q[8:] @ S @ q[8:].mT).tril() @ v[8:]  # q S_A C_B, C_B the sum of q^T v in the chunk so far
    assert (whole[:8] - figure[:8]).abs().max() < 1e-12  # products of other shapes round in another order
    torch.testing.assert_close(whole[8:] - figure[8:], missing, rtol=1e-10, atol=1e-10)
