"""Feature maps, the normaliser, and positions: definitions, widths, identities."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linattn_ref import oracle
from linattn_ref.ops import FEATURE_MAPS, Form, cos_reweight, normalised, rotate, step_linear_attention
from tests.ops.every_form import EXACT, LINEAR
from tests.ops.ladder import inputs_of
from tests.ops.ladder_cases import Case, normal
from tests.support.closeness import assert_close

forms = pytest.mark.parametrize("form", LINEAR, ids=lambda form: form.form)

DEFINITIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "identity": lambda x: x,
    "elu_plus_one": lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))),
    "relu": lambda x: np.where(x > 0, x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "exponential": lambda x: np.concatenate([np.exp(x), np.exp(-x)], -1),
    "taylor": lambda x: np.concatenate(
        [
            np.ones_like(x[..., :1]),
            x,
            (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:-1], -1) / np.sqrt(2),
        ],
        -1,
    ),
}


def test_every_feature_map_has_a_definition_here() -> None:
    assert FEATURE_MAPS.keys() == DEFINITIONS.keys()


@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_feature_map_equals_its_definition(name: str, generator: torch.Generator) -> None:
    x = 3 * normal(generator, 2, 7, 3, 5)
    assert_close(name, FEATURE_MAPS[name].apply(x), DEFINITIONS[name](x.numpy()), EXACT)


@pytest.mark.parametrize("K", [1, 2, 5, 16])
@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_feature_map_has_the_declared_width(name: str, K: int, generator: torch.Generator) -> None:
    phi = FEATURE_MAPS[name]
    assert phi.apply(normal(generator, 2, 3, 1, K)).shape == (2, 3, 1, phi.width(K))


@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_feature_map_is_positive_exactly_if_it_says_so(name: str, generator: torch.Generator) -> None:
    phi = FEATURE_MAPS[name]
    features = phi.apply(4 * normal(generator, 4, 50, 2, 6))
    assert (features >= 0).all().item() is phi.positive


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_feature_map_keeps_dtype(name: str, dtype: torch.dtype, generator: torch.Generator) -> None:
    assert FEATURE_MAPS[name].apply(normal(generator, 2, 3, 1, 4).to(dtype)).dtype == dtype


def test_taylor_features_multiply_to_the_second_order_exponential(generator: torch.Generator) -> None:
    q, k = normal(generator, 50, 6), normal(generator, 50, 6)
    x = (q * k).sum(-1)
    phi = FEATURE_MAPS["taylor"].apply
    product = (phi(q) * phi(k)).sum(-1)
    assert_close("product", product, 1 + x + x**2 / 2, EXACT)
    assert (product >= 0.5).all()
    small = 1e-3 * torch.ones(1, 1, dtype=torch.float64)
    assert_close("exp", (phi(small) * phi(small)).sum(), math.exp(1e-6), 1e-15)


def test_exponential_features_multiply_to_sums_of_hyperbolic_cosines(generator: torch.Generator) -> None:
    """e^q e^k + e^-q e^-k = 2 cosh(q + k), summed over channels."""
    q, k = normal(generator, 50, 6), normal(generator, 50, 6)
    phi = FEATURE_MAPS["exponential"].apply
    assert_close("product", (phi(q) * phi(k)).sum(-1), (2 * (q + k).cosh()).sum(-1), EXACT)


# --- the normaliser --------------------------------------------------------------------------------------


def positive_inputs(**fields: Any) -> dict[str, Any]:
    """Return q and k with positive features, v, and whatever else the case has."""
    x = inputs_of(Case("linear_attention", T=23, **fields))
    phi = FEATURE_MAPS["elu_plus_one"].apply
    return {**x, "q": phi(x["q"]), "k": phi(x["k"])}


@pytest.mark.check
@pytest.mark.theorem("thm-normaliser")
@forms
def test_column_of_ones_gives_the_weighted_mean(form: Form) -> None:
    x = positive_inputs()
    got = normalised(form.function, **x, eps=0.0).output
    for b, h in np.ndindex(2, 2):
        want = oracle.normalised_linear_attention(*(x[name][b, :, h].numpy() for name in ("q", "k", "v")))
        assert_close(f"{form.form} {b} {h}", got[b, :, h], want, 1e-10)


@pytest.mark.theorem("thm-normaliser")
@pytest.mark.parametrize("decay", [None, "head", "token", "channel"])
@forms
def test_normaliser_equals_an_explicit_division(form: Form, decay: str | None) -> None:
    """With decay as well: numerator and denominator by two calls of the op."""
    x = positive_inputs(decay=decay)
    got = normalised(form.function, **x, eps=1e-6)
    numerator, state = form.function(**x, scale=1.0)
    denominator, sums = form.function(**{**x, "v": torch.ones_like(x["v"][..., :1])}, scale=1.0)
    assert_close("output", got.output, numerator / (denominator + 1e-6), 1e-10)
    assert_close("state", got.state, torch.cat([state, sums], -1), 1e-10)


@pytest.mark.theorem("thm-normaliser")
@forms
def test_normalised_values_that_are_all_alike_come_back(form: Form) -> None:
    """Weights that sum to 1: the mean of a constant is the constant."""
    x = positive_inputs(decay="token")
    got = normalised(form.function, **{**x, "v": torch.full_like(x["v"], 7.0)}, eps=0.0).output
    assert_close("mean", got, torch.full_like(got, 7.0), 1e-10)


@forms
def test_normalised_op_resumes_from_its_state(form: Form) -> None:
    x = positive_inputs(decay="channel")
    whole = normalised(form.function, **x)
    head = normalised(form.function, **{name: y[:, :9] for name, y in x.items()})
    tail = normalised(form.function, **{name: y[:, 9:] for name, y in x.items()}, initial_state=head.state)
    assert_close("output", torch.cat([head.output, tail.output], 1), whole.output, 1e-10)
    assert_close("state", tail.state, whole.state, 1e-10)


def test_normaliser_takes_the_step_as_well() -> None:
    x = positive_inputs()
    whole = normalised(LINEAR[0].function, **x)
    head = normalised(LINEAR[0].function, **{name: y[:, :-1] for name, y in x.items()})
    last = {name: y[:, -1:] for name, y in x.items()}
    step = normalised(step_linear_attention, **last, state=head.state)
    assert_close("output", step.output, whole.output[:, -1:], 1e-10)


def test_eps_keeps_a_row_without_weights_finite() -> None:
    x = positive_inputs()
    x = {**x, "k": torch.zeros_like(x["k"])}
    assert_close("output", normalised(LINEAR[0].function, **x).output, torch.zeros_like(x["v"]), 0.0)


# --- rotation --------------------------------------------------------------------------------------------


def scores_at(
    transform: Callable[[Tensor, Tensor], Tensor], q: Tensor, k: Tensor, t: float, s: float
) -> Tensor:
    """Return the products of transform(q, t) and transform(k, s)."""
    place = lambda x, at: transform(x, torch.full((x.shape[1],), at, dtype=torch.float64))  # noqa: E731
    return (place(q, t) * place(k, s)).sum(-1)


@pytest.mark.theorem("thm-rope-relative")
@pytest.mark.parametrize("K", [2, 4, 16])
def test_rotated_score_depends_on_the_distance_alone(K: int, generator: torch.Generator) -> None:
    q, k = normal(generator, 2, 5, 3, K), normal(generator, 2, 5, 3, K)
    for distance in (0, 1, 7, 100):
        want = scores_at(rotate, q, k, distance, 0)
        for s in (1, 13, 500):
            assert_close(f"{distance} apart", scores_at(rotate, q, k, s + distance, s), want, 1e-11)
    assert not torch.allclose(scores_at(rotate, q, k, 1, 0), scores_at(rotate, q, k, 2, 0))


@pytest.mark.theorem("thm-rope-relative")
def test_rotated_score_is_a_sum_of_turned_planes(generator: torch.Generator) -> None:
    """Re(sum_c q_c conj(k_c) e^{i (t - s) w_c}), with channels c and c + K/2 as real and imaginary part."""
    K, t, s = 6, 9.0, 4.0
    q, k = normal(generator, 1, 1, 1, K), normal(generator, 1, 1, 1, K)
    plane = lambda x: x[..., : K // 2] + 1j * x[..., K // 2 :]  # noqa: E731
    speed = 10_000.0 ** (-2 * torch.arange(K // 2, dtype=torch.float64) / K)
    want = (plane(q) * plane(k).conj() * torch.exp(1j * (t - s) * speed)).sum(-1).real
    assert_close("score", scores_at(rotate, q, k, t, s), want, EXACT)


def test_rotation_keeps_norms_and_dtype(generator: torch.Generator) -> None:
    x, positions = normal(generator, 2, 50, 3, 8), torch.arange(50, dtype=torch.float64)
    assert_close("norm", rotate(x, positions).norm(dim=-1), x.norm(dim=-1), EXACT)
    assert rotate(x.bfloat16(), positions).dtype == torch.bfloat16


def test_rotation_at_position_zero_does_nothing(generator: torch.Generator) -> None:
    x = normal(generator, 1, 1, 2, 4)
    assert torch.equal(rotate(x, torch.zeros(1, dtype=torch.float64)), x)


def test_rotation_base_sets_the_slowest_plane() -> None:
    """The last of K/2 planes turns base^(-(K - 2) / K) radians a token."""
    x = torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=torch.float64).view(1, 1, 1, 4)  # real part of plane 1
    angle = 100.0 ** (-2 / 4)
    want = torch.tensor([0.0, math.cos(angle), 0.0, math.sin(angle)], dtype=torch.float64).view(1, 1, 1, 4)
    one = torch.ones(1, dtype=torch.float64)
    assert_close("turned", rotate(x, one, base=100.0), want, EXACT)
    assert_close(
        "by speeds", rotate(x, one, speed=torch.tensor([3.0, angle], dtype=torch.float64)), want, EXACT
    )


def test_rotation_refuses_an_odd_width_and_speeds_of_other_planes() -> None:
    with pytest.raises(ValueError, match="x: got width 5, expected an even width"):
        rotate(torch.ones(1, 2, 1, 5), torch.arange(2.0))
    with pytest.raises(ValueError, match=r"speed: got shape \[1\], expected \[2\]"):
        rotate(torch.ones(1, 2, 1, 4), torch.arange(2.0), speed=torch.ones(1))


# --- cosFormer -------------------------------------------------------------------------------------------


@pytest.mark.theorem("thm-cosformer")
@pytest.mark.parametrize("M", [8, 100, 1000])
def test_cos_reweighting_multiplies_the_score_by_a_cosine_of_the_distance(
    M: int, generator: torch.Generator
) -> None:
    q, k = normal(generator, 2, 3, 2, 5), normal(generator, 2, 3, 2, 5)
    plain = (q * k).sum(-1)
    transform = lambda x, positions: cos_reweight(x, positions, M)  # noqa: E731
    for t, s in ((0, 0), (5, 0), (7, 2), (M - 1, 0), (M - 1, M - 1)):
        want = math.cos(math.pi * (t - s) / (2 * M)) * plain
        assert_close(f"{t}, {s}", scores_at(transform, q, k, t, s), want, EXACT)


@pytest.mark.theorem("thm-cosformer")
@forms
def test_cosformer_is_linear_attention_with_re_weighted_scores(form: Form) -> None:
    x, M = positive_inputs(), 40
    positions = torch.arange(23, dtype=torch.float64)
    phi_q, phi_k = (cos_reweight(x[name], positions, M) for name in "qk")
    got = normalised(form.function, phi_q, phi_k, x["v"], eps=0.0).output
    factor = (math.pi / (2 * M) * (positions[:, None] - positions)).cos().tril()
    weights = torch.einsum("bthk,bshk->bhts", x["q"], x["k"]) * factor
    want = torch.einsum("bhts,bshv->bthv", weights / weights.sum(-1, keepdim=True), x["v"])
    assert_close("output", got, want, 1e-10)


def test_cos_reweighting_of_positive_features_keeps_scores_positive(generator: torch.Generator) -> None:
    x = normal(generator, 1, 16, 1, 4).abs()
    features = cos_reweight(x, torch.arange(16, dtype=torch.float64), 16)
    assert (torch.einsum("bthk,bshk->bhts", features, features) > 0).all()


@pytest.mark.parametrize("positions", [[8.0], [0.0, 9.0], [8.0, 0.0], [0.0, 8.0, 1.0]])
def test_cos_reweighting_refuses_positions_not_below_its_length(positions: list[float]) -> None:
    x = torch.ones(1, len(positions), 1, 2)
    with pytest.raises(ValueError, match=r"positions: got [0-9] to [89], expected 0 to below max_length = 8"):
        cos_reweight(x, torch.tensor(positions), 8)
    assert cos_reweight(x, torch.tensor(positions), 10).shape == (1, len(positions), 1, 4)


def test_cos_reweighting_of_the_past_does_not_change_as_a_sequence_grows(generator: torch.Generator) -> None:
    x, positions = normal(generator, 1, 9, 1, 4), torch.arange(9, dtype=torch.float64)
    assert torch.equal(cos_reweight(x[:, :5], positions[:5], 16), cos_reweight(x, positions, 16)[:, :5])
