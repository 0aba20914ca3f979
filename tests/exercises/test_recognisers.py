"""Kinds of mistakes are told by what they do to a result; results that are wrong in another way are not."""

import math

import numpy as np
import pytest
import torch

from linattn_exercises.recognisers import Case, recognise

RNG = np.random.default_rng(5)
TABLE = np.tril(RNG.normal(size=(6, 6)))
ROWS = RNG.normal(size=(9, 4)) + 3.0
SAME = np.arange(6)[:, None] // 2 == np.arange(6) // 2  # places in the same chunk of two
WEIGHTS = np.exp(ROWS[:4]) / np.exp(ROWS[:4]).sum(1, keepdims=True)


def told(got, expected, **arguments) -> str:
    return recognise([Case(arguments, got, expected, False)], 0)


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        (TABLE.T, TABLE, "transpose of the expected table"),
        (-ROWS, ROWS, "wrong sign"),
        (1.5 * ROWS, ROWS, "1.5 times the expected one."),
        (1.0004 * ROWS, ROWS, "1.0004 times the expected one."),
        ((1 + 1e-7) * ROWS, ROWS, "agrees to 7 digits"),
        (ROWS / math.log(2), ROWS, "that is 1/ln 2"),
        (16 * ROWS, ROWS, "that is 16, the length of axis 1 of `q`"),
        (ROWS / 4, ROWS, "1 over the root of 16, the length of axis 1 of `q`"),
        (ROWS + 1, ROWS, "too large by 1"),
        (ROWS**2, ROWS, "is a root missing?"),
        (np.log(np.abs(ROWS)), np.abs(ROWS), "is an exponential missing?"),
        (np.vstack([ROWS[:1] + 1, ROWS[:-1]]), ROWS, "one token late"),
        (np.vstack([ROWS[1:], ROWS[:1]]), ROWS, "one token early"),
        (ROWS[::-1], ROWS, "back to front"),
        (ROWS.cumsum(0), ROWS, "running sum of what is expected"),
        (TABLE + np.triu(ROWS[:6, :1] + TABLE.T, 1), TABLE, "above it, where the future stands"),
        (TABLE - np.diag(np.diag(TABLE)), TABLE, "but on the diagonal"),
        (np.exp(ROWS[:4]) / np.exp(ROWS[:4]).sum(0), WEIGHTS, "wrong axis"),
        (0.5 ** np.arange(9)[:, None] * ROWS, ROWS, "a power of 0.5"),
        (RNG.uniform(1, 2, (9, 1)) * ROWS, ROWS, "a number of its own"),
        (
            np.vstack([ROWS[:4], ROWS[4:] + RNG.normal(size=(5, 4))]),
            ROWS,
            "4 rows are right, 2 times `chunk`",
        ),
        (np.vstack([ROWS[:1], ROWS[1:] + RNG.normal(size=(8, 4))]), ROWS, "first row alone is right"),
        (np.vstack([RNG.normal(size=(8, 4)), ROWS[8:]]), ROWS, "do the others see their future?"),
        (torch.from_numpy(ROWS).bfloat16().double(), ROWS, "bfloat16 numbers"),
        (np.where(ROWS > 3, np.nan, ROWS), ROWS, "are NaN"),
        ((ROWS, TABLE), (TABLE, ROWS), "in another order"),
        ((1.0, 0.0, 0.0), (1.0, 0.0, np.zeros(3)), "Part 3 of the result: An axis is missing"),
        ((2.0, 1.0, 1.0), (1.0, 2.0, 2.0), ""),
        ((1 + 1e-8 * RNG.normal(size=(9, 4))) * ROWS, ROWS, "digits, about as many as float32 has"),
        ((TABLE, ROWS + 1e-7 * RNG.normal(size=(9, 4))), (TABLE, ROWS), "It agrees to 7 digits"),
        ((TABLE, 2 * ROWS), (TABLE, ROWS), "Part 2 of the result: Every entry is 2 times"),
        (ROWS.T, ROWS, "shape of the transpose"),
        (ROWS[:, None], ROWS, "an axis of length 1 too many"),
        (ROWS[:-1], ROWS, "The first 8 rows are right, the last one is missing"),
        (ROWS[:6], ROWS, "the last 3 are missing: is a last part dropped"),
        (ROWS[:-1] ** 3, ROWS, "longer or shorter by one"),
        (np.vstack([ROWS[:6], 0 * ROWS[:3]]), ROWS, "The last 3 rows are 0, the others right"),
        (np.vstack([ROWS[:3], 0 * ROWS[:1], ROWS[4:]]), ROWS, "One row is 0, the others right"),
        (np.where(TABLE < 0, -np.inf, np.inf), TABLE, "minus infinity that never goes through exp"),
        (np.where(TABLE < 0, TABLE, np.inf), TABLE, "an exponential that overflows."),
        (ROWS, (ROWS, TABLE), "That is part 1 of the result. There are 2"),
        (
            np.where(SAME & ~np.eye(6, dtype=bool), 2, 1) * TABLE,
            TABLE,
            "Right from one `chunk` to another, wrong within each",
        ),
        (np.where(SAME, 1, 2) * TABLE, TABLE, "Right within each `chunk`, wrong from one to another"),
        (RNG.normal(size=(9, 4)), ROWS, ""),
        (
            ROWS + 1e-10 * 10.0 ** np.arange(9)[:, None] * RNG.normal(size=(9, 4)),
            ROWS,
            "",
        ),  # no first wrong row
        (np.zeros(3), np.zeros(7), ""),  # no row is right by what it says
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_an_array(got, expected, says):
    found = told(got, expected, q=np.zeros((9, 16)), chunk=2)
    assert says in found if says else found == ""


def over_calls(wrong, right=lambda K, order: K**2 + order, judged=lambda got, want: got == want) -> str:
    cases = []
    for K, order in ((3, 1), (5, 2), (8, 3), (6, 1), (4, 2)):
        got, want = wrong(K, order), right(K, order)
        cases.append(Case({"K": K, "order": order}, got, want, judged(got, want)))
    first = next(n for n, case in enumerate(cases) if not case.right)
    return recognise(cases, first)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda K, order: 2 * (K**2 + order), "Every result is 2 times the expected one."),
        (lambda K, order: (K**2 + order) / math.log(2), "1/ln 2"),
        (lambda K, order: (K**2 + order) * math.sqrt(K), "times the root of `K`"),
        (lambda K, order: (K**2 + order) / K / 2, "0.5 times the expected one divided by `K`"),
        (lambda K, order: K**2 + order - 1, "too small by 1"),
        (lambda K, order: K**2 + order + K, "too large by `K`"),
        (lambda K, order: (K**2 + order) ** 2, "is a root missing?"),
        (lambda K, order: float(np.float32(0.1)) * 10 * (K**2 + order), "agrees to 7 digits"),
        (lambda K, order: K**2 + min(order, 1), "Right where `order` is at most 1, wrong where it is 2"),
        (lambda K, order: -(K**2) - order, "Every result has the wrong sign."),
        (lambda K, order: (K**2 + order) / math.log(10), "a logarithm or a power of another base?"),
        (lambda K, order: K**2 + order + 0.3 + K / 100, "Rounded down to a whole number, every result"),
        (lambda K, order: math.sin(K * order), ""),
    ],
    ids=[
        *("factor", "base", "root of K", "two factors", "offset", "plus K", "square", "float32", "beyond"),
        *("sign", "a question ends so", "rounding", ""),
    ],
)  # fmt: skip
def test_numbers_over_calls(wrong, says):
    found = over_calls(wrong)
    assert says in found if says else found == ""


def test_one_wrong_call_is_no_rule_and_two_arguments_that_tell_are_none():
    assert over_calls(lambda K, order: K**2 + order + (order == 3)) == ""
    cases = [Case({"a": n, "b": n}, 2.0 if n > 2 else n, n, n <= 2) for n in (1, 2, 3, 5)]
    assert recognise(cases, 2) == ""


def test_what_is_less_than_rounding_is_no_offset():
    wanted = [1e-3, 2e-3, 5e-3, 1e15, 1e18]  # beside the last two any `a` is less than rounding
    cases = [Case({"a": 0.1 * n}, max(1.0, x), x, x > 1) for n, x in enumerate(wanted, 1)]
    assert "too large by `a`" not in recognise(cases, 0)


def test_a_call_with_an_extreme_number_is_no_rule_s_example():
    cases = [
        Case({"K": K, "rho": rho}, got, 2.0, got == 2.0)
        for K, rho, got in (
            (2, 0.9, 3.0),
            (64, 0.0, 2.0),
            (128, 0.3, 2.5),
            (16, 0.0, 2.0),
            (10**12, 0.2, 2.0),
        )
    ]
    cases = [Case(one.arguments, one.got + n, 2.0 + n, one.right) for n, one in enumerate(cases)]
    assert recognise(cases, 0) == "Right where `rho` is at most 0, wrong where it is 0.3 or more."


def test_a_near_miss_is_told():
    right = [1.5, 2.5, 3.5, 4.5]
    cases = [Case({"L": n}, x * (1 + 0.003 * (-1) ** n), x, False) for n, x in enumerate(right)]
    assert recognise(cases, 0).startswith("No result is off by more than 0.3 %: is a search too coarse")


def test_a_sentence_ends_once():
    message = told(ROWS / math.log(2), ROWS)
    assert message.endswith("another base?")
    assert told(2 * ROWS, ROWS).endswith("expected one.")


def test_a_field_of_a_configuration_that_is_missing():
    cases = [
        Case({"config": {"window": window}, "tokens": n}, n * (2 if window else 1), n, window is None)
        for n, window in ((3, None), (5, 9), (8, None), (13, 9))
    ]
    assert recognise(cases, 1) == "Right where `window` is missing, and only there."
