"""Formulas of the page of models: what an expression, and the plain text of a docstring, become in LaTeX."""

import pytest

from linattn_book.builders.formulas import (
    Kinds,
    find_kinds,
    translate_block,
    translate_code,
    translate_equation,
    translate_text,
)
from linattn_ref.mixers import MIXERS

KINDS = Kinds(by_token={"q", "k", "v", "a", "S", "G", "beta"}, vectors={"q", "k", "v", "u", "A", "G"})
EXPRESSIONS = {
    "1": ["1"],
    "outer(k, v)": [r"k_t^\top v_t"],
    "outer(1 - G, v)": [r"(1 - G_t)^\top v_t"],
    "beta * outer(k, v)": [r"\beta_t\, k_t^\top v_t"],
    "outer(exp(w), v)": [r"e^{w}\, v_t"],  # numbers: nothing is transposed
    "dot(q, S_past + outer(u * k, v)) * K**-0.5": [r"q_t\, (S_{t-1} + (u \odot k_t)^\top v_t) / \sqrt{K}"],
    "sigmoid(a) ** (1 / 16)": [r"\sigma(a_t)^{1/16}"],
    "1 - 2.0 ** (-5 - h)": ["1 - 2^{-5 - h}"],
    "1 - (w - h)": ["1 - (w - h)"],
    "(w + h) * (w - h)": [r"(w + h)\, (w - h)"],
    "(w + h) ** 2": ["(w + h)^{2}"],
    "w / (h * h)": [r"w / (h\, h)"],
    "exp(-exp(w) * h)": [r"\exp(-e^{w}\, h)"],
    "exp(delta * A)": [r"e^{\Delta\, A}"],
    "eye(K) - beta * outer(k, k)": [r"I - \beta_t\, k_t^\top k_t"],
    "diag_embed(a) - outer(k, k * u)": [r"\operatorname{Diag}(a_t) - k_t^\top (k_t \odot u)"],
    "paired(dot(q, S)) + skip * v": [r"2\,\mathrm{Re}(q_t\, S_t) + D\, v_t"],
    "ratio(dot(q, S))": [r"n_t / (d_t + \varepsilon)", r"[n_t, d_t] = q_t\, S_t"],
    "outer(k, with_ones(v))": [r"k_t^\top [v_t, 1]"],
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_becomes_its_formula(text: str) -> None:
    assert translate_code(text, KINDS) == EXPRESSIONS[text]


@pytest.mark.parametrize("text", ["amplitude * k", "tanh(k)", "k @ v", "k if a else v", "q.sum()", "'k'"])
def test_what_has_no_symbol_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="text: got"):
        translate_code(text, KINDS)


@pytest.mark.parametrize("name", [name for name in MIXERS if MIXERS[name].equation])
def test_every_equation_has_a_gate_a_write_and_a_read(name: str) -> None:
    parts = translate_equation(name)
    assert len(parts) == 3
    for latex in (formula for part in parts for formula in part):
        assert latex.count("{") == latex.count("}")
        assert latex.count("(") == latex.count(")")
        assert "|" not in latex  # which would end the cell of a table


def test_an_index_says_what_depends_on_the_token() -> None:
    """Selection: S4D's step, B and C are the same at each token, and Mamba's are not."""
    assert {"delta", "A", "C", "G"}.isdisjoint(find_kinds("s4d").by_token)
    assert {"delta", "B", "C", "G"} <= find_kinds("mamba").by_token
    assert "A" not in find_kinds("mamba").by_token
    assert "G" in find_kinds("gla").by_token
    assert "G" not in find_kinds("retnet").by_token


TEXTS = {
    "S_t = gamma_h S_{t-1} + k_t^T v_t": r"S_t = \gamma_h\, S_{t-1} + k_t^\top v_t",
    "k'_t^T [v, 1]": r"{k'_t}^\top[v, 1]",
    "e^i_t k_t / sqrt K": r"e^{i_t}\, k_t / \sqrt{K}",
    "silu(x_t W_q)": r"\operatorname{silu}(x_t\, W_q)",
    "n_t / (d_t + 1e-6)": "n_t / (d_t + 10^{-6})",
    "10000^(-2c/K)": "10000^{-2c/K}",
    "a_t = x_t W_1 per head": r"a_t = x_t\, W_1\quad \text{per head}",
    "A = -(1, ..., N)": r"A = -(1, \dots, N)",
}


@pytest.mark.parametrize("text", TEXTS)
def test_plain_text_becomes_its_formula(text: str) -> None:
    assert translate_text(text) == TEXTS[text]


@pytest.mark.parametrize("text", ["max_length", "ops.rotate", 'init="lin"', "running_maximum", "None"])
def test_names_in_code_are_not_taken_for_mathematics(text: str) -> None:
    with pytest.raises(ValueError, match="text: got"):
        translate_text(text)


def test_equations_of_a_block_stand_below_each_other() -> None:
    lines = translate_block("    f = x W,  q = silu(x)\n    y = o W_o").splitlines()
    assert lines[2:5] == [r"f &= x\, W \\", r"q &= \operatorname{silu}(x) \\", r"y &= o\, W_o"]
