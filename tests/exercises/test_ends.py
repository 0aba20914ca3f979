"""Where a text says how far inputs go, some go there with every seed, and none goes beyond.

A text that names no end can be held against any constant in an answer; an end that no input reaches, against
none.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from linattn_exercises.questions import PUBLIC_SEED
from linattn_exercises.sets import load_questions


class End(NamedTuple):
    """Describe an end: the question, who is asked, the size of its arguments, and where the text lets it end.

    ``reached`` is how far the draws have to go, by default all the way.
    """

    question: str
    name: str
    size: Callable[..., Any]
    end: float
    reached: float | None = None


def lowest(x: torch.Tensor) -> float:
    """Return the lowest entry that is finite."""
    return x[x.isfinite()].min().item() if x.isfinite().any() else 0.0


def least_damping(A: torch.Tensor) -> float:
    """Return the smallest ratio of what a mode decays by to its size."""
    return (-A[:, 0] / A.norm(dim=1)).min().item()


def kept_span(N: list[float], L: list[float]) -> float:
    """Return the ratio of the largest size to the smallest, without the suspect."""
    kept = np.delete(N, load_questions("ch08_scale")["q5"].reference["suspect"](N, L))
    return kept.max() / kept.min()


def finite(x: float) -> float:
    """Return a number, or 0 for an infinite one."""
    return x if x < math.inf else 0


def lead(other: np.ndarray, shuffled: np.ndarray, second: np.ndarray) -> float:
    """Return by how much the largest share that goes away is above the next one."""
    shares = np.sort(1 - second.mean(1) / shuffled.mean(1))
    return shares[-1] - shares[-2]


def least_share(half_lives: list[float]) -> float:
    """Return the smallest share of a softmax whose bounds have these half-lives."""
    bounds = [0.0, *(2 ** (-1 / life) for life in half_lives[1:])]
    return min(1 - bounds[-1], *(b - a for a, b in itertools.pairwise(bounds)))


def slope(N: list[float], L: list[float]) -> float:
    """Return the exponent a by medians."""
    return load_questions("ch08_scale")["q5"].reference["robust"](N, L)[1]


def distance(A_bar: torch.Tensor, d: int, T: int) -> float:
    """Return how near two of some numbers are, or one and the conjugate of another."""
    numbers = torch.view_as_complex(A_bar)
    apart = torch.minimum((numbers[:, None] - numbers).abs(), (numbers[:, None] - numbers.conj()).abs())
    return apart.fill_diagonal_(math.inf).min().item()


def least_read(x: torch.Tensor, v: torch.Tensor) -> float:
    """Return the smallest answer that is more than what rounding leaves of 0."""
    keys = x / x.norm(dim=-1, keepdim=True)
    read = (keys @ (keys.mT @ v)).mean(0).abs()
    return read[read > 1e-14].min().item() if (read > 1e-14).any() else math.inf


def budgets_ratio(N: list[float], first: float, last: float, factor: list[float]) -> float:
    """Return the larger of the first budget and the last, over the other."""
    ratio = N[-1] * factor[-1] * last / (N[0] * factor[0] * first)
    return max(ratio, 1 / ratio)


def times_ratio(H: int, T: int, D: int, F: float, W: float, places: int, tau: float) -> float:
    """Return the smallest ratio of two chunks' times that are not equal."""
    chains = {C: math.ceil(H / places) * math.ceil(T / C) * tau for C in (16, 32, 64, 128, 256)}
    times = {max(H * T * (4 * C * D + 4 * D**2) / F, 8 * H * T * D / W, chain) for C, chain in chains.items()}
    return min((b / a for a, b in itertools.pairwise(sorted(times))), default=math.inf)


def size_of(question: str, name: str) -> Callable[..., float]:
    """Return what answers a call that asks for a number."""
    set_name, question = question.split("/")
    return lambda *arguments: load_questions(set_name)[question].reference[name](*arguments)


def nearness(C: list[float], N: list[float], loss: list[list[float]]) -> float:
    """Return by which share the lowest loss of a budget is below the next one, at least."""
    pairs = (sorted(column)[:2] for column in zip(*loss, strict=True))
    return min(second / first - 1 for first, second in pairs if first < math.inf)


MOST = [
    End("ch01_softmax/q1", "predicted_size", lambda K, rho: K, 1e15),
    End("ch01_softmax/q3", "most_tokens", lambda config, free, batch: free, 1e18),
    End("ch02_linear/q5", "feature_width", lambda K, order: K, 5_000, 4_500),
    End("ch02_linear/q5", "feature_width", lambda K, order: order, 5_000, 4_500),
    End("ch02_linear/q5", "feature_width", lambda K, order: math.comb(K + order, order), 12e6, 11.5e6),
    End("ch03_decay/q1", "best_decay", lambda live, pairs: finite(pairs), 1_500),
    End("ch03_decay/q2", "half_life", lambda q, k, v, o: len(q), 400),
    End("ch04_ssm/q2", "kernel", lambda delta, A, B, C, T: delta * A.norm(dim=1).max().item(), 100, 99.9),
    End("ch04_ssm/q2", "convolve", lambda u, k: len(u), 384_000),
    End("ch04_ssm/q3", "outputs", lambda fault, u, delta, r, w: delta * math.hypot(r, w), 400, 390),
    End("ch04_ssm/q4", "memory", len, 1_000, 900),
    End("ch05_selection/q1", "step_for", lambda keep, a: -math.log(keep) / a, 1e6, 9e5),
    End("ch05_selection/q1", "largest_state", lambda a, low, high, hold: a * high, 700, 690),
    End("ch05_selection/q1", "step_for", lambda keep, a: keep, 1 - 1e-14, 1 - 1.11e-14),
    End("ch05_selection/q1", "step_for", lambda keep, a: a, 1_000, 999),
    End("ch05_selection/q1", "largest_state", lambda a, low, high, hold: a, 1_000, 990),
    End("ch02_linear/q1", "table", lambda q, k, log_decay, w: q.max().item(), 1e6),
    End("ch03_decay/q3", "table", lambda q, k, log_decay, part: q.max().item(), 1e6),
    End("ch05_selection/q5", "outputs", lambda fault, beta, log_decay: beta.max().item(), 50),
    End("ch06_fast/q1", "double_context", size_of("ch06_fast/q1", "double_context"), 1e11, 9e10),
    End("ch07_four/q1", "attend", lambda q, *_: len(q), 600),
    End("ch07_four/q1", "attend", lambda q, k, v, *_: (k.abs().max() * v.abs().max()).item(), 1.2e6),
    End("ch07_four/q4", "smallest_every", lambda T, D, H, budget: T, 2**27),
    End("ch07_four/q5", "fit", lambda compute, loss: max(compute), 1e22),
    End("ch08_scale/q2", "design_exponent", lambda N, first, last: last, 1e14, 5e13),
    End("ch08_scale/q2", "with_cost", lambda N, first, last, factor: last, 1e14, 5e13),
    End("ch08_scale/q2", "first_for", lambda N, last, a: last, 1e14),
    End("ch08_scale/q3", "iso_flop", lambda C, N, loss: len(C), 21),
    End("ch08_scale/q3", "iso_flop", lambda C, N, loss: len(N), 7),
    End("ch08_scale/q3", "iso_flop", lambda C, N, loss: max(map(finite, itertools.chain(*loss))), 300, 280),
    End("ch08_scale/q5", "robust", lambda N, L: len(N), 11),
    End("ch08_scale/q6", "price", lambda share, alpha, beta: max(alpha, beta), 1.6, 1.5),
    End("ch08_scale/q6", "price", lambda share, alpha, beta: share, 1e6),
    End("ch09_recall/q1", "repeated", lambda text, n: len(text), 9_500),
    End("ch09_recall/q1", "repeated", lambda text, n: text.max(), 255),
    End("ch09_recall/q3", "found", lambda logits, digits: logits.max(), 2_000, 1_990),
    End("ch09_recall/q4", "bits", lambda n, keys, values: n, 30_000),
    End("ch09_recall/q4", "bits", lambda n, keys, values: keys, 1e6),
    End("ch09_recall/q4", "pairs", lambda b, keys, values: keys, 20_000),
    End("ch09_recall/q5", "store", lambda keys, signs: keys.shape[1], 30),
    End("ch09_recall/q5", "design", lambda K: K, 30),
]
LEAST = [
    End("ch02_linear/q1", "table", lambda q, k, log_decay, w: lowest(log_decay), -1_000),
    End("ch02_linear/q2", "chunked", lambda q, k, v, g, state, chunk: g, -20),
    End("ch02_linear/q3", "repaired", lambda q, k, v: min(lowest(q), lowest(k)), -60, -59),
    End("ch02_linear/q4", "share_right", least_read, 1e-10, 1.2e-10),
    End("ch03_decay/q2", "half_life", lambda q, k, v, o: len(q), 40),
    End("ch03_decay/q4", "logits_for", least_share, 1e-12, 1.2e-12),
    End("ch03_decay/q5", "outputs", lambda fault, log_decay, chunk: lowest(log_decay), -1_000),
    End("ch04_ssm/q1", "largest_step", lambda A, theta: least_damping(A), 1e-4, 1.01e-4),
    End("ch04_ssm/q1", "smallest_theta", lambda A, delta: least_damping(A), 1e-4, 1.01e-4),
    End("ch04_ssm/q1", "largest_step", lambda A, theta: 0.5 - theta if theta < 0.5 else 1, 3e-13, 3.01e-13),
    End("ch04_ssm/q3", "outputs", lambda fault, u, delta, r, w: delta * math.hypot(r, w), 1e-7, 1.01e-7),
    End("ch04_ssm/q5", "best_delay", lambda A, d, T: A[:, 1].abs().min().item(), 1e-12, 1.2e-12),
    End("ch04_ssm/q5", "best_delay", distance, 0.1, 0.1002),
    End("ch05_selection/q1", "step_for", lambda keep, a: a, 1e-11, 1.01e-11),
    End("ch05_selection/q1", "step_for", lambda keep, a: keep, 1e-300),
    End("ch05_selection/q1", "largest_state", lambda a, low, high, hold: a, 1e-11, 1.01e-11),
    End("ch05_selection/q2", "prefixes", lambda x, v, g: g[g.isfinite()].sum().item(), -1e11),
    End("ch05_selection/q2", "prefixes", lambda x, v, g: lowest(g), -1e10),
    End("ch05_selection/q4", "chunk", lambda q, k, v, beta, log_decay, S: lowest(log_decay), -30),
    End("ch05_selection/q5", "outputs", lambda fault, beta, log_decay: beta.min().item(), 1e-8),
    End("ch05_selection/q5", "outputs", lambda fault, beta, log_decay: lowest(log_decay), -30),
    End("ch05_selection/q4", "chunk", lambda q, k, v, beta, *_: beta.min().item(), 1e-4, 1.2e-4),
    End("ch06_fast/q2", "row_logsumexp", lambda launch, x, *_: lowest(x), -3e4),
    End("ch06_fast/q3", "decayed_attention", lambda launch, q, k, v, log_decay, *_: lowest(log_decay), -40),
    *(
        End("ch06_fast/q1", name, lambda P, *_: P, 1e6, 1.1e6)
        for name in ("step_seconds", "ridge_batch", "double_context")
    ),
    End("ch06_fast/q1", "double_context", size_of("ch06_fast/q1", "double_context"), 1e-3, 1.1e-3),
    End("ch06_fast/q1", "ridge_batch", size_of("ch06_fast/q1", "ridge_batch"), 1e-3, 1.11e-3),
    End("ch06_fast/q5", "best_chunk", times_ratio, 1.0001, 1.00012),
    End("ch07_four/q1", "attend", lambda q, k, v, speed, log_decay, state: lowest(log_decay), -200),
    End("ch07_four/q5", "fit", lambda compute, loss: max(compute) / min(compute), 1.1, 1.101),
    End("ch07_four/q5", "fit", lambda compute, loss: min(compute), 1e-9),
    End("ch07_four/q5", "fit", lambda compute, loss: min(loss), 1e-6, 1.01e-6),
    End("ch07_four/q5", "compute_needed", lambda first, second, C: C, 1e-3, 1.01e-3),
    End("ch07_four/q5", "compute_needed", lambda first, second, C: first[1], 0.05, 0.0501),
    End("ch07_four/q5", "compute_needed", lambda first, second, C: second[1], 0.05, 0.0501),
    End("ch08_scale/q1", "apparent", lambda E, gamma, L: gamma, 0.005, 0.00501),
    End("ch08_scale/q1", "apparent", lambda E, gamma, L: L, 0.01, 0.0101),
    End("ch08_scale/q1", "recover", lambda L1, s1, L2, s2: min(L1, L2), 0.01, 0.0101),
    End("ch08_scale/q1", "more_compute", lambda E, gamma, L, target: gamma, 0.005),
    End("ch08_scale/q1", "more_compute", lambda E, gamma, L, target: L, 0.01, 0.0101),
    End("ch08_scale/q2", "design_exponent", lambda N, first, last: N[-1] / N[0], 1.25, 1.2502),
    End("ch08_scale/q2", "with_cost", lambda N, first, last, factor: N[-1] / N[0], 1.25, 1.2502),
    End("ch08_scale/q2", "with_cost", budgets_ratio, 1 / 0.92, 1.091),
    End("ch08_scale/q2", "first_for", lambda N, last, a: N[-1] / N[0], 1.25, 1.2502),
    End("ch08_scale/q3", "iso_flop", nearness, 4e-10, 5e-10),
    *(
        End("ch08_scale/q4", name, size, end, reached)
        for name in ("by_curve", "by_line")
        for size, end, reached in (
            (lambda N, L, target: N[2] / N[0], 2, 2.001),
            (lambda N, L, target: min(1 - L[1] / L[0], 1 - L[2] / L[1]), 1e-6, 1.14e-6),
        )
    ),
    End("ch08_scale/q5", "robust", lambda N, L: len(N), 3),
    End("ch08_scale/q5", "robust", slope, 0.0, 0.05),
    End("ch08_scale/q5", "refit", lambda N, L: kept_span(N, L), 1.01, 1.0101),
    End("ch08_scale/q6", "price", lambda share, alpha, beta: min(alpha, beta), 0.04, 0.0403),
    End("ch09_recall/q1", "repeated", lambda text, n: len(text), 1),
    End("ch09_recall/q2", "which", lambda *losses: np.mean(losses, 2).min(), 1e-8, 1.01e-8),
    End("ch09_recall/q2", "which", lead, 1e-4, 1.31e-4),
    End("ch09_recall/q3", "found", lambda logits, digits: logits.min(), -2_000, -1_990),
    End("ch09_recall/q5", "design", lambda K: K, 2),
]
RESULTS = [
    End("ch06_fast/q1", "ridge_batch", finite, 2e14, 1e14),
    End("ch07_four/q5", "compute_needed", finite, 1e156, 1e155),
    End("ch07_four/q4", "smallest_every", finite, 12e6, 11.9e6),
    End("ch04_ssm/q1", "largest_step", finite, 1e8, 5e7),
    End("ch08_scale/q1", "more_compute", finite, 1.01e200, 1e199),
    End("ch08_scale/q6", "price", finite, 1e80, 1e79),
]


def name_end(end: End) -> str:
    return f"{end.question}-{end.name}-{end.end:g}"


def draw(end: End, seed: int = 1) -> list[Any]:
    """Return the arguments of all calls of what is asked for."""
    set_name, question = end.question.split("/")
    calls = load_questions(set_name)[question].draw(np.random.default_rng(seed))
    return [call.arguments for call in calls if call.name == end.name]


def largest_result(end: End, seed: str) -> float:
    """Return the size of the largest result of what is asked for."""
    set_name, question = end.question.split("/")
    prepared = load_questions(set_name)[question].prepare(seed)
    pairs = zip(prepared.calls, prepared.wanted, strict=True)
    return max(end.size(wanted) for call, wanted in pairs if call.name == end.name)


# Ends that draws once went beyond with these seeds, and with few others.
RARELY = [
    (End("ch08_scale/q5", "robust", slope, 0.0), (4, 7)),
    (End("ch09_recall/q2", "which", lead, 1e-4), (23,)),
]
RARE_RESULTS = [(End("ch08_scale/q1", "more_compute", finite, 1.01e200), ("s54",))]


@pytest.mark.parametrize("end", MOST, ids=name_end)
def test_inputs_go_up_to_where_the_text_ends_them(end):
    most = max(end.size(*arguments) for arguments in draw(end))
    assert (end.reached or end.end) <= most <= end.end


@pytest.mark.parametrize("end", LEAST, ids=name_end)
def test_inputs_go_down_to_where_the_text_ends_them(end):
    least = min(end.size(*arguments) for arguments in draw(end))
    assert end.end <= least <= (end.reached or end.end)


@pytest.mark.parametrize("end", RESULTS, ids=name_end)
def test_results_go_up_to_where_the_text_ends_them(end):
    assert (end.reached or end.end) <= largest_result(end, PUBLIC_SEED) <= end.end


@pytest.mark.parametrize(("end", "seeds"), RARE_RESULTS, ids=[name_end(end) for end, _ in RARE_RESULTS])
def test_no_seed_has_a_result_beyond_an_end(end, seeds):
    for seed in seeds:
        assert largest_result(end, seed) <= end.end


@pytest.mark.parametrize(("end", "seeds"), RARELY, ids=[name_end(end) for end, _ in RARELY])
def test_no_seed_goes_beyond_an_end(end, seeds):
    for seed in seeds:
        assert end.end <= min(end.size(*arguments) for arguments in draw(end, seed))
