"""What must not change a result: memory layout, length, chunk size, other sequences, other heads."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from linattn_ref.ops import Form
from tests.ops.every_form import CHUNKED, EXACT, assert_equal_runs, rows
from tests.ops.ladder import OPS, call_of, check_against_oracle, inputs_of
from tests.ops.ladder_cases import Case


def strided(x: Tensor) -> Tensor:
    """Return the same numbers, stored with the order of strides reversed and gaps of NaN between them."""
    backwards = tuple(reversed(range(x.ndim)))
    room = torch.full([2 * n for n in reversed(x.shape)], torch.nan, dtype=x.dtype)
    view = room[(slice(None, None, 2),) * x.ndim].permute(backwards)
    return view.copy_(x)


@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True, chunk_size=7))
def test_memory_layout_does_not_change_results(form: Form, case: Case) -> None:
    x = inputs_of(case)
    apart = {name: strided(y) for name, y in x.items()}
    assert not any(y.is_contiguous() for name, y in apart.items() if y.ndim > 1)
    assert_equal_runs(form, case, call_of(form, case)(apart), call_of(form, case)(x), EXACT)


@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True))
def test_inputs_of_stride_zero_are_read_as_repeated(form: Form, case: Case) -> None:
    x = inputs_of(case)
    timed = [name for name in OPS[case.op].timed if name in x and x[name].ndim > 1]
    flat = {**x, **{name: x[name][:, :1].expand_as(x[name]) for name in timed}}
    flat[timed[0]] = x[timed[0]][..., :1].expand_as(x[timed[0]])
    whole = {name: y.contiguous() for name, y in flat.items()}
    assert_equal_runs(form, case, call_of(form, case)(flat), call_of(form, case)(whole), EXACT)


@pytest.mark.parametrize(("form", "case"), rows(T=20, start=True, chunk_size=7))
def test_call_leaves_its_inputs_untouched(form: Form, case: Case) -> None:
    x = {name: y.clone() for name, y in inputs_of(case).items()}
    call_of(form, case)(x)
    assert all(torch.equal(x[name], y) for name, y in inputs_of(case).items())


@pytest.mark.parametrize(("form", "case"), rows(CHUNKED, T=1, chunk_size=8))
def test_chunk_form_takes_lengths_that_are_no_multiple(form: Form, case: Case) -> None:
    for T in range(1, 26):
        check_against_oracle(replace(case, T=T), call_of(form, case), f"{form.form}, T = {T}")


@pytest.mark.parametrize(("form", "case"), rows(CHUNKED, T=33, start=True))
def test_chunk_size_does_not_change_results(form: Form, case: Case) -> None:
    want = call_of(form, case)(inputs_of(case))
    for chunk_size in (1, 2, 5, 17, 32, 33, 34, 1000):
        got = call_of(form, replace(case, chunk_size=chunk_size))(inputs_of(case))
        assert_equal_runs(form, case, got, want, EXACT)


@pytest.mark.parametrize(("form", "case"), rows(T=20, B=3, H=2, start=True, chunk_size=7))
def test_batch_elements_are_independent(form: Form, case: Case) -> None:
    x = inputs_of(case)
    call = call_of(form, case)
    together = call(x)
    for b in range(case.B):
        alone = call({name: y[b : b + 1] if has_batch(case, name, y) else y for name, y in x.items()})
        assert_equal_runs(form, case, alone, {name: y[b : b + 1] for name, y in together.items()}, EXACT)


def has_batch(case: Case, name: str, x: Tensor) -> bool:
    """Return whether the first dimension of a leaf is the batch."""
    return name.startswith("initial_state") or (name in OPS[case.op].timed and x.ndim > 1)


def one_head(case: Case, name: str, x: Tensor, h: int) -> Tensor:
    """Return what belongs to one head, or to one channel of an op on channels."""
    if case.op == "selective_scan" and name in ("B", "C"):
        return x  # shared by all channels
    if "state" in name and case.op != "softmax_attention":  # a cache is a sequence
        return x.narrow(1, h, 1)
    sequence = name == "output" or "state" in name or has_batch(case, name, x)
    return x.narrow(2 if sequence else 0, h, 1)


@pytest.mark.parametrize(("form", "case"), rows(T=20, H=3, start=True, chunk_size=7))
def test_heads_and_channels_are_independent(form: Form, case: Case) -> None:
    x, call = inputs_of(case), call_of(form, case)
    together = call(x)
    for h in range(3):
        alone = call({name: one_head(case, name, y, h) for name, y in x.items()})
        want = {name: one_head(case, name, y, h) for name, y in together.items()}
        assert_equal_runs(form, case, alone, want, EXACT)
