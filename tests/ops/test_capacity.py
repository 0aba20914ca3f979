"""What a state of K x V numbers can hold, and how large scores are: exact where exact, statistics elsewhere.

A statistical test draws many independent trials of a quantity whose mean and variance the theorem gives, and
asks the average to be within 4 standard errors of the mean: by chance it fails once in 16 000 seeds.
"""

import pytest
import torch
from torch import Generator, Tensor
from torch.nn.functional import normalize

from linattn_ref.ops import Form, parallel_linear_attention, recurrent_linear_attention
from tests.ops.every_form import LINEAR
from tests.ops.ladder_cases import normal
from tests.support.closeness import assert_close

SIGMAS = 4
TRIALS = 20_000
RECURRENT, PARALLEL = (
    next(form for form in LINEAR if form.form == name) for name in ("recurrent", "parallel")
)
forms = pytest.mark.parametrize("form", LINEAR, ids=lambda form: form.form)


def recall(form: Form, keys: Tensor, values: Tensor) -> Tensor:
    """Write n pairs, keys [B, n, K] and values [B, n, V]; then ask for every key. Return [B, n, V]."""
    k, v = keys[:, :, None], values[:, :, None]
    state = form.function(torch.zeros_like(k), k, v, scale=1.0).state
    nothing = torch.zeros_like(k), torch.zeros_like(v)
    return form.function(k, *nothing, scale=1.0, initial_state=state).output[:, :, 0]


def gram(form: Form, keys: Tensor) -> Tensor:
    """Return the map from values to what is recalled, [n, n]: row j has the shares of values in answer j."""
    n = len(keys)
    return recall(form, keys[None], torch.eye(n, dtype=keys.dtype)[None])[0]


def unit_keys(generator: Generator, *shape: int) -> Tensor:
    """Return random vectors of length 1."""
    return normalize(normal(generator, *shape), dim=-1)


def assert_mean(name: str, sample: Tensor, mean: float, variance: float) -> None:
    """Fail if the average of independent draws is too far from their mean for their variance."""
    off = abs(sample.mean().item() - mean) / (variance / len(sample)) ** 0.5
    assert off <= SIGMAS, (
        f"{name}: average {sample.mean().item():.5g}, {off:.1f} standard errors from {mean:.5g}"
    )


# --- capacity --------------------------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.theorem("thm-capacity")
@pytest.mark.parametrize("n", [1, 2, 7, 8])
@forms
def test_up_to_k_orthonormal_keys_are_recalled_exactly(form: Form, n: int, generator: Generator) -> None:
    K, V = 8, 5
    keys = torch.linalg.qr(normal(generator, K, K))[0][:n]
    values = normal(generator, n, V)
    assert_close("recalled", recall(form, keys[None], values[None])[0], values, 1e-12)


def key_sets(generator: Generator, n: int, K: int) -> dict[str, Tensor]:
    """Return n = K + 1 unit keys: at random, nearly orthonormal, repeated, and spread as far as they go."""
    axes = torch.eye(K, dtype=torch.float64)
    spread = unit_keys(generator, n, K).requires_grad_()
    for _ in range(100):
        unit = normalize(spread, dim=-1)
        loss = (unit @ unit.T).square().sum()
        spread = (spread - 0.1 * torch.autograd.grad(loss, spread)[0]).detach().requires_grad_()
    return {
        "random": unit_keys(generator, n, K),
        "axes and one between": torch.cat([axes, normalize(axes.sum(0, keepdim=True), dim=-1)]),
        "axes and one again": torch.cat([axes, axes[:1]]),
        "spread by descent": normalize(spread.detach(), dim=-1),
    }


@pytest.mark.theorem("thm-capacity")
@forms
def test_k_plus_one_unit_keys_are_never_all_recalled(form: Form, generator: Generator) -> None:
    """What is recalled is G v, G the keys' Gram matrix: its rank is at most K < n, so G is not the identity.

    Hence some values of norm 1 are recalled as zero, and the squared error over all values is at least n - K.
    """
    K = 6
    for name, keys in key_sets(generator, K + 1, K).items():
        G = gram(form, keys)
        assert_close(f"{name}: Gram matrix", G, keys @ keys.T, 1e-12)
        assert torch.linalg.matrix_rank(G, atol=1e-9) <= K
        assert (G - torch.eye(K + 1)).square().sum() >= 1 - 1e-12
        lost = torch.linalg.eigh(G).eigenvectors[:, :1]
        assert_close(
            f"{name}: lost values", recall(form, keys[None], lost[None])[0], torch.zeros(K + 1, 1), 1e-12
        )


@pytest.mark.theorem("thm-capacity")
@pytest.mark.parametrize("n", [7, 12, 60])
def test_no_queries_and_keys_lose_less_than_n_minus_k(n: int, generator: Generator) -> None:
    """Values of variance 1 come back as A v, A = Q K^T: the squared error |I - A|^2 is n - K at least.

    The best A projects on K directions; every other choice, also one fitted to the others, is no better.
    """
    K = 6
    basis = torch.linalg.qr(normal(generator, n, K))[0]
    assert_close("projection", _loss(basis, basis), torch.tensor(float(n - K)), 1e-10)
    for _ in range(20):
        keys = normal(generator, n, K)
        fitted = keys @ torch.linalg.inv(keys.T @ keys)  # queries that are best for these keys
        for queries in (normal(generator, n, K) / n, keys / n, fitted):
            assert _loss(queries, keys) >= n - K - 1e-9


def _loss(queries: Tensor, keys: Tensor) -> Tensor:
    """Return |I - A|^2, A the matrix that maps the stored values [n] to the recalled ones."""
    n = len(keys)
    values = torch.eye(n, dtype=torch.float64)
    k, v = keys[None, :, None], values[None, :, None]  # [1, n, 1, .]
    state = RECURRENT.function(k, k, v, scale=1.0).state[0, 0]  # [K, n]
    return (values - queries @ state).square().sum()


@pytest.mark.theorem("thm-capacity")
@pytest.mark.parametrize(("n", "K", "sigma"), [(2, 4, 1.0), (9, 8, 1.0), (17, 32, 0.5), (40, 16, 2.0)])
def test_random_keys_are_recalled_with_error_n_minus_one_over_k(
    n: int, K: int, sigma: float, generator: Generator
) -> None:
    """Mean squared error per component of the first value: sigma^2 (n - 1) / K.

    The error is a sum over n - 1 other values, weighted by (k_1 . k_i); given the keys it is normal of
    variance sigma^2 s, s = sum (k_1 . k_i)^2. Each square is Beta(1/2, (K - 1)/2): mean 1/K, variance
    2 (K - 1) / (K^2 (K + 2)). One component a trial: its square has variance sigma^4 (2 E[s^2] + Var[s]).
    """
    keys = unit_keys(generator, TRIALS, n, K)
    values = sigma * normal(generator, TRIALS, n, 1)
    error = (recall(PARALLEL, keys, values) - values)[:, 0, 0].square()
    mean = (n - 1) / K
    spread = (n - 1) * 2 * (K - 1) / (K**2 * (K + 2))
    assert_mean("squared error", error, sigma**2 * mean, sigma**4 * (2 * (spread + mean**2) + spread))


def test_statistics_catch_an_error_that_is_off_by_one_pair(generator: Generator) -> None:
    """n / K instead of (n - 1) / K is refused."""
    n, K = 9, 8
    s = (unit_keys(generator, TRIALS, n, K) @ torch.eye(K, dtype=torch.float64)[0]).square()[:, 1:].sum(-1)
    variance = (n - 1) * 2 * (K - 1) / (K**2 * (K + 2))
    assert_mean("sum of squares", s, (n - 1) / K, variance)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean("sum of squares", s, n / K, variance)


# --- size of scores --------------------------------------------------------------------------------------


def scores(q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    """Return the scores of single tokens, as attention computes them: the output for a value of 1."""
    one = torch.ones(len(q), 1, 1, 1, dtype=q.dtype)
    return parallel_linear_attention(q[:, None, None], k[:, None, None], one, scale=scale).output.flatten()


def signs(generator: Generator, *shape: int) -> Tensor:
    """Return numbers 1 and -1."""
    return 2.0 * torch.randint(2, shape, generator=generator).double() - 1


FOURTH_MOMENTS = {normal: lambda K: 3 * K**2 + 6 * K, signs: lambda K: 3 * K**2 - 2 * K}  # of q . k


@pytest.mark.theorem("thm-score-variance")
@pytest.mark.parametrize("K", [1, 4, 64, 256])
@pytest.mark.parametrize("draw", FOURTH_MOMENTS, ids=lambda draw: draw.__name__)
def test_score_of_unit_variance_entries_has_variance_k(draw, K: int, generator: Generator) -> None:
    """E[x^2] = K, and 1 with the default scale; the standard error follows from E[x^4]."""
    q, k = draw(generator, TRIALS, K), draw(generator, TRIALS, K)
    variance = FOURTH_MOMENTS[draw](K) - K**2  # of x^2
    assert_mean("mean", scores(q, k, 1.0), 0.0, K)
    if variance:
        assert_mean("variance", scores(q, k, 1.0).square(), K, variance)
        assert_mean("variance, scaled", scores(q, k, None).square(), 1.0, variance / K**2)
    else:
        assert_close("always 1", scores(q, k, 1.0).square(), torch.ones(TRIALS), 0.0)


@pytest.mark.theorem("thm-score-variance")
def test_recurrent_form_scales_scores_alike(generator: Generator) -> None:
    q, k = normal(generator, 50, 9), normal(generator, 50, 9)
    one = torch.ones(50, 1, 1, 1, dtype=torch.float64)
    got = recurrent_linear_attention(q[:, None, None], k[:, None, None], one).output.flatten()
    assert_close("scores", got, (q * k).sum(-1) / 3, 1e-12)
