"""Slips that passed before an input told them: each replaces an answer, and the input is still there."""

import math

import numpy as np
import pytest
import torch

from linattn_exercises.calls import find_fault, run_call
from linattn_exercises.questions import PUBLIC_SEED
from linattn_exercises.sets import load_questions

SLIPS = {
    "a product of quotients": (
        "ch02_linear/q5",
        """
def feature_width(K, order):
    c, most = 1.0, max(K, order)
    for i in range(1, min(K, order) + 1):
        c *= (most + i) / i
    return int(c)
""",
    ),
    "a product that is no float on the way": (
        "ch02_linear/q5",
        """
def feature_width(K, order):
    c = 1.0
    for i in range(order):
        c = c * (K + order - i) / (i + 1)
    return round(c)
""",
    ),
    "an epsilon beside what is small": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    scores = q @ k.T
    def alike(life):
        p = (2.0 ** (-age / life)).tril() * scores @ v
        return torch.nn.functional.cosine_similarity(p.flatten(), o.flatten(), dim=0)
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if alike(math.exp(a)) > alike(math.exp(b)) else (a, high)
    return math.exp((low + high) / 2)
""",
    ),
    "a table divided by each decay": (
        "ch02_linear/q1",
        """
def table(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    D = (c[:, None] - c).clamp(max=0).exp() / log_decay.exp()[:, None]
    return (D * (q @ k.T)).tril(-1) + torch.diag((q * w * k).sum(-1))
""",
    ),
    "a step that is nearly stable": (
        "ch04_ssm/q1",
        """
def smallest_theta(A, delta):
    re, im = A.T
    if delta <= (-2 * re / (re**2 + im**2)).min().item() + 1e-9:
        return 0.0
    return max(0.0, (0.5 + re / (delta * (re**2 + im**2))).max().item())
""",
    ),
    "a mode that hardly turns": (
        "ch04_ssm/q1",
        """
def largest_step(A, theta):
    if theta >= 0.5:
        return math.inf
    steps = [-2 / re if abs(im) < 1e-9 else -2 * re / (re * re + im * im) for re, im in A.tolist()]
    return min(steps) / (1 - 2 * theta)
""",
    ),
    "steps up to 100,000": (
        "ch05_selection/q1",
        """
def step_for(keep, a):
    low, high = 0.0, 1e5
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.exp(-a * middle) > keep else (low, middle)
    return (low + high) / 2
""",
    ),
    "decays held at -25": (
        "ch05_selection/q4",
        """
_chunk = chunk
def chunk(q, k, v, beta, log_decay, S):
    return _chunk(q, k, v, beta, log_decay.clamp(min=-25), S)
""",
    ),
    "turning decays held at -30": (
        "ch07_four/q1",
        """
_attend = attend
def attend(q, k, v, speed, log_decay, state):
    log_decay = torch.where(log_decay < -30, -30.0, log_decay)
    return _attend(q, k, v, speed, log_decay, state)
""",
    ),
    "a chunk of 8": (
        "ch06_fast/q5",
        """
def best_chunk(H, T, D, F, W, places, tau):
    def seconds(C):
        flops = H * T * (4 * C * D + 4 * D**2)
        return max(flops / F, 8 * H * T * D / W, math.ceil(H / places) * math.ceil(T / C) * tau)
    return min((8, 16, 32, 64, 128, 256), key=seconds)
""",
    ),
    "each budget by itself": (
        "ch08_scale/q1",
        """
def more_compute(E, gamma, L, target):
    if target <= E:
        return math.inf
    return (target - E) ** (-1 / gamma) / (L - E) ** (-1 / gamma)
""",
    ),
    "a price that is taken for infinite": (
        "ch08_scale/q6",
        """
_price = price
def price(share, alpha, beta):
    cost = _price(share, alpha, beta)
    return cost if cost < 1e60 else math.inf
""",
    ),
    "an epsilon under a mean": (
        "ch09_recall/q2",
        """
def adapting(other, shuffled, second):
    return 1 - shuffled.mean(1) / (other.mean(1) + 1e-12)
""",
    ),
    "the future held by a mask that comes late": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    scores = (q @ k.T).tril()
    def error(life):
        return ((2.0 ** (-age / life) * scores) @ v - o).square().sum().item()
    low, high = 0.4, 6.0
    for _ in range(60):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "no more than 10^17 tokens": (
        "ch01_softmax/q3",
        """
_most = most_tokens
def most_tokens(config, free_bytes, batch):
    return math.inf if cache_bytes(config, 10**17, batch) <= free_bytes else _most(config, free_bytes, batch)
""",
    ),
    "a reference that gates pass": (
        "ch05_selection/q2",
        """
def compose(first, then):
    g1, m1, d1, u1 = first
    g2, m2, d2, u2 = then
    m1 = m1 + g2
    m = torch.maximum(m1, m2)
    at = m.clamp(min=-9.9e10)
    a, b = (m1 - at).exp(), (m2 - at).exp()
    return g1 + g2, m, a * d1 + b * d2, a * u1 + b * u2
""",
    ),
    "turning decays below -31 taken for nothing": (
        "ch07_four/q1",
        """
_attend = attend
def attend(q, k, v, speed, log_decay, state):
    return _attend(q, k, v, speed, torch.where(log_decay < -31, -torch.inf, log_decay), state)
""",
    ),
    "thirty halvings": (
        "ch08_scale/q4",
        """
def by_curve(N, L, target):
    wanted, low, high = (L[0] - L[1]) / (L[1] - L[2]), 1e-3, 5.0
    for _ in range(30):
        alpha = (low + high) / 2
        x, y, z = (n**-alpha for n in N)
        low, high = (alpha, high) if (x - y) / (y - z) < wanted else (low, alpha)
    A = (L[0] - L[1]) / (N[0] ** -alpha - N[1] ** -alpha)
    return L[0] + A * (target**-alpha - N[0] ** -alpha)
""",
    ),
    "an epsilon where a price ends": (
        "ch08_scale/q6",
        """
_price = price
def price(share, alpha, beta):
    left = 1 - beta / (alpha + beta) * share**-alpha
    return math.inf if left <= 4.5e-5 else _price(share, alpha, beta)
""",
    ),
    "an epsilon under a slope": (
        "ch08_scale/q5",
        """
def refit(N, L):
    kept = np.arange(len(N)) != suspect(N, L)
    x, y = np.log(N)[kept], np.log(L)[kept]
    X, Y = x - x.mean(), y - y.mean()
    slope = (X * Y).sum() / ((X * X).sum() + 1e-11)
    return math.exp(y.mean() - slope * x.mean()), -float(slope)
""",
    ),
    "an epsilon beside sure models": (
        "ch09_recall/q2",
        """
def which(other, shuffled, second):
    return int(((shuffled - second).mean(1) / (shuffled.mean(1) + 1e-9)).argmax())
""",
    ),
    "a cut-off for singular values": (
        "ch09_recall/q5",
        """
def store(keys, signs):
    return np.linalg.pinv(keys, rcond=5e-10) @ signs
""",
    ),
    "a series that is cut too early": (
        "ch04_ssm/q3",
        """
_outputs = outputs
def outputs(fault, u, delta, rate, frequency):
    x = delta * rate
    y = _outputs(fault, u, delta, rate, frequency)
    short = frequency == 0 and x < 2e-4
    return y * ((1 - x / 2) / (-math.expm1(-x) / x)) if short else y
""",
    ),
    "decays between tokens held at -30": (
        "ch05_selection/q4",
        """
def chunk(q, k, v, beta, log_decay, S):
    lam, b = log_decay.cumsum(0), beta[:, None]
    start, end = lam.exp()[:, None], (lam[-1] - lam).exp()[:, None]
    decay = (lam[:, None] - lam).clamp(min=-30, max=0).exp().tril()
    system = torch.eye(len(k), dtype=k.dtype) + (b * decay * (k @ k.T)).tril(-1)
    u = torch.linalg.solve_triangular(system, b * (v - start * (k @ S)), upper=False)
    return start * (q @ S) + (decay * (q @ k.T)) @ u, start[-1] * S + (end * k).T @ u
""",
    ),
    "a search that begins at 10^-40": (
        "ch07_four/q5",
        """
_needed = compute_needed
def compute_needed(first, second, C):
    return max(_needed(first, second, C), 1e-40 / C)
""",
    ),
    "every second output": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    scores = q @ k.T
    def error(life):
        return (((2.0 ** (-age / life)).tril() * scores @ v - o)[1::2]).square().sum().item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "the smallest largest error": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    scores = q @ k.T
    def error(life):
        return ((2.0 ** (-age / life)).tril() * scores @ v - o).abs().max().item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "a bisection of 40 halvings": (
        "ch01_softmax/q3",
        """
def most_tokens(config, free_bytes, batch):
    high = 1
    while cache_bytes(config, high, batch) <= free_bytes:
        high *= 2
        if high > 10**40:
            return math.inf
    low = high // 2
    for _ in range(40):
        middle = (low + high) // 2
        fits = cache_bytes(config, middle, batch) <= free_bytes
        low, high = (middle, high) if fits else (low, middle)
    return low
""",
    ),
    "reads next to 0": (
        "ch02_linear/q4",
        """
def share_right(x, v):
    k = x / x.norm(dim=-1, keepdim=True)
    read = (k @ (k.mT @ v)).mean(0)
    return (v * read > 1e-8).double().mean().item()
""",
    ),
    "modes next to 0": (
        "ch04_ssm/q1",
        """
def smallest_theta(A, delta):
    re, im = A.T
    return max(0.0, (0.5 + re / (delta * (re**2 + im**2).clamp(min=1e-15))).max().item())
""",
    ),
    "the logarithm of a quotient": (
        "ch05_selection/q1",
        """
def step_for(keep, a):
    return math.log(1 / keep) / a
""",
    ),
    "rates next to 0": (
        "ch05_selection/q1",
        """
_largest = largest_state
def largest_state(a, low, high, hold):
    return _largest(max(a, 1e-4), low, high, hold)
""",
    ),
    "no long string comes again": (
        "ch09_recall/q1",
        """
_repeated = repeated
def repeated(text, n):
    return _repeated(text, n) & (n <= 60)
""",
    ),
    "no very long string comes again": (
        "ch09_recall/q1",
        """
_repeated = repeated
def repeated(text, n):
    return _repeated(text, n) & ((n < 200) | (len(text) == 2_048))
""",
    ),
    "no long string misleads": (
        "ch09_recall/q1",
        """
_misleading = misleading
def misleading(text, n):
    return _misleading(text, n) & (n <= 60)
""",
    ),
    "an epsilon under the rival's mean": (
        "ch09_recall/q2",
        """
def which(other, shuffled, second):
    return int((1 - second.mean(1) / (shuffled.mean(1) + 1e-10)).argmax())
""",
    ),
    "the first two channels": (
        "ch03_decay/q2",
        """
_life = half_life
def half_life(q, k, v, o):
    return _life(q, k, v[:, :2], o[:, :2])
""",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_told(slip):
    place, code = SLIPS[slip]
    set_name, name = place.split("/")
    question = load_questions(set_name)[name]
    answer = {"math": math, "np": np, "torch": torch, **question.reference}
    exec(compile(code, f"<{slip}>", "exec"), answer)
    prepared = question.prepare(PUBLIC_SEED)
    changed = {asked for asked, given in question.reference.items() if answer[asked] is not given}
    told = [
        bool(find_fault(call, run_call(answer, call, question.own_code), wanted))
        for call, wanted in zip(prepared.calls, prepared.wanted, strict=True)
        if call.name in changed
    ]
    assert any(told)
    assert not all(told)  # it is a slip, and runs
