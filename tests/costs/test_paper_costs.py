"""The paper's formulas: its pieces add up to its Table 1, its table of sizes, and to what torch counts."""

from typing import Any

import pytest
import sympy
from sympy import symbols

from linattn_book import results
from linattn_ref.config import PAPER_ARCHITECTURES, PAPER_SIZES, ModelConfig, paper_config
from linattn_ref.costs import paper as paper_costs
from linattn_ref.costs.accounting import flops_exact, flops_per_token, n_parameters
from linattn_ref.costs.paper import ARCHITECTURES, Piece, Sizes, count_pieces

ROWS: list[dict[str, Any]] = results.load("paper_sizes")
BATCH, LENGTH = 480, 8192  # sequences of a step, and their tokens
LAST_DIGIT = 0.1  # of parameters and FLOPs, as printed
n, d, h, l = symbols("n d h l", positive=True)

every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['architecture']}-{row['size']}")


def total(parts: list[Piece], layers: Any) -> Any:
    """Forward and backward, of all layers, on one sequence."""
    return 3 * sum(piece.flops * (1 if piece.once else layers) for piece in parts)


# --- symbols -----------------------------------------------------------------------------------------------

# what the pieces have and Table 1 has not, per token
LEFT_OUT = {
    "llama": 9 * h * l * n,  # softmax: in the appendix n h / (8 d^2)
    "tnl": 0,
    "hgrn2": 12 * d * l / n,  # bounds: once for all tokens
    "cosformer2": 12 * d * l,  # cosines: 35 / (72 d) instead of 23 / (72 d)
}


@every_architecture
def test_the_pieces_add_up_to_table_1(architecture: str) -> None:
    parts = count_pieces(architecture, Sizes.of_paper(n, d, h))
    difference = total(parts, l) / n - paper_costs.flops_per_token(architecture, n, l, d, h)
    assert sympy.simplify(difference - LEFT_OUT[architecture]) == 0


def test_without_mixers_six_flops_a_parameter() -> None:
    """The 6 N rule is the first term of LLaMA's."""
    flops = paper_costs.flops_per_token("llama", n, l, d, h)
    products = sympy.limit(flops / paper_costs.n_parameters("llama", l, d, h), d, sympy.oo)
    assert products == 6


# --- the paper's Table 7 -----------------------------------------------------------------------------------


def test_the_table_has_all_architectures_and_sizes() -> None:
    assert tuple(PAPER_ARCHITECTURES) == ARCHITECTURES
    named = {(row["architecture"], row["size"]) for row in ROWS}
    assert named == {(name, size) for name in ARCHITECTURES for size in PAPER_SIZES}
    assert len(ROWS) == len(named)


@every_row
def test_a_configuration_is_the_printed_one(row: dict[str, Any]) -> None:
    """But for heads and g at 1B, which contradict the parameters and FLOPs beside them."""
    config = paper_config(row["architecture"], row["size"])
    assert (config.n_layers, config.d_model) == (row["n_layers"], row["d_model"])
    if row["size"] != "1B":
        assert (config.n_heads, config.ff_width) == (row["n_heads"], row["d_ff"])
    assert config.head_dim == 128


@every_row
def test_pflops_are_the_printed_ones_to_a_printed_unit(row: dict[str, Any]) -> None:
    config = paper_config(row["architecture"], row["size"])
    pflops = flops_per_token(config, LENGTH) * BATCH * LENGTH / 1e15
    assert abs(pflops - row["pflops"]) <= LAST_DIGIT / 2 + 1e-3


@every_row
def test_parameters_are_the_printed_ones_within_a_thousandth(row: dict[str, Any]) -> None:
    """A thousandth beyond what rounding to the last printed digit explains."""
    millions = n_parameters(paper_config(row["architecture"], row["size"]), embedding=False) / 1e6
    assert abs(millions - row["parameters"]) <= 1e-3 * row["parameters"] + LAST_DIGIT / 2


def test_at_1b_the_printed_heads_and_widths_do_not_give_the_printed_costs() -> None:
    """With 16 heads and g = 5632, as printed there, parameters are a quarter too many."""
    for row in (row for row in ROWS if row["size"] == "1B"):
        of_row = paper_costs.n_parameters(
            row["architecture"], row["n_layers"], row["d_model"], row["n_heads"], row["d_ff"]
        )
        assert of_row / 1e6 > 1.2 * row["parameters"]


@every_architecture
def test_the_real_model_has_norms_beside_the_formula(architecture: str) -> None:
    """2 l d + d of the blocks and the end; HGRN2's mixer has one more a layer."""
    for size in PAPER_SIZES:
        c = paper_config(architecture, size)
        formula = paper_costs.n_parameters(architecture, c.n_layers, c.d_model, c.n_heads, c.d_ff)
        norms = (3 if architecture == "hgrn2" else 2) * c.n_layers * c.d_model + c.d_model
        assert n_parameters(c, embedding=False) == formula + norms


# --- torch's counter ---------------------------------------------------------------------------------------


@every_architecture
def test_products_are_what_torch_counts(architecture: str) -> None:
    """With heads of 64, the block of the paper is the chunk of the op; all pieces that are no products are
    left out by torch, and the positions before the first layer are, too, but ``flops_exact`` adds them."""
    config = ModelConfig(
        PAPER_ARCHITECTURES[architecture], d_model=128, n_layers=3, n_heads=2, vocab_size=32, d_ff=352
    )
    parts = count_pieces(architecture, Sizes(n=256, d=128, h=2, g=352, B=64, t=64, e=64))
    counted = [piece for piece in parts if piece.product or piece.once]
    output_layer = 6 * 256 * 128 * 32
    assert total(counted, 3) + output_layer == flops_exact(config, 256)
    assert len(counted) < len(parts)


@pytest.mark.parametrize(
    "call",
    [
        lambda: count_pieces("gpt", Sizes.of_paper(n, d, h)),
        lambda: paper_costs.flops_per_token("gpt", 1, 1, 1, 1),
        lambda: paper_costs.n_parameters("gpt", 1, 1, 1),
    ],
    ids=["pieces", "flops", "parameters"],
)
def test_an_unknown_architecture_is_named(call: Any) -> None:
    with pytest.raises(ValueError, match="architecture: got 'gpt', expected one of"):
        call()
