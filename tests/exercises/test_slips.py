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
    "a mask of -10,000": (
        "ch02_linear/q1",
        """
def table(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    gap = (c - log_decay)[:, None] - c
    decay = (gap - 1e4 * torch.ones_like(gap).triu()).exp()
    return decay * (q @ k.T) + torch.diag((q * w * k).sum(-1))
""",
    ),
    "a mask of -100,000": (
        "ch03_decay/q5",
        """
_outputs = outputs
def outputs(fault, log_decay, chunk):
    if fault != "none":
        return _outputs(fault, log_decay, chunk)
    c = log_decay.cumsum(0)
    return (c[:, None] - c - 1e5 * torch.ones(len(c), len(c)).triu(1)).exp().sum(1)
""",
    ),
    "a state that decays below e^-18": (
        "ch02_linear/q2",
        """
_chunked = chunked
def chunked(q, k, v, g, state, chunk):
    return _chunked(q, k, v, g, state * (g > -18), chunk)
""",
    ),
    "a middle in floats": (
        "ch01_softmax/q3",
        """
def most_tokens(config, free_bytes, batch):
    low, high = 0, free_bytes + 1
    if cache_bytes(config, 2 * high, batch) <= free_bytes:
        return math.inf
    while high - low > 1:
        middle = int((low + high) / 2)
        if middle in (low, high):
            break
        fits = cache_bytes(config, middle, batch) <= free_bytes
        low, high = (middle, high) if fits else (low, middle)
    return low
""",
    ),
    "a mean of many spreads": (
        "ch01_softmax/q1",
        """
_size = predicted_size
def predicted_size(K, rho):
    return rho * K if rho * math.sqrt(K) > 500 else _size(K, rho)
""",
    ),
    "a correlation taken for 0": (
        "ch01_softmax/q1",
        """
_size = predicted_size
def predicted_size(K, rho):
    return math.sqrt(K) if rho < 1e-10 else _size(K, rho)
""",
    ),
    "all but the first five outputs": (
        "ch03_decay/q2",
        """
_life = half_life
def half_life(q, k, v, o):
    q, o = q.clone(), o.clone()
    q[:5], o[:5] = 0, 0
    return _life(q, k, v, o)
""",
    ),
    "the first 260 tokens": (
        "ch03_decay/q2",
        """
_life = half_life
def half_life(q, k, v, o):
    return _life(q[:260], k[:260], v[:260], o[:260])
""",
    ),
    "the last three channels": (
        "ch03_decay/q2",
        """
_life = half_life
def half_life(q, k, v, o):
    return _life(q, k, v[:, -3:], o[:, -3:])
""",
    ),
    "a cut-off for columns of one length": (
        "ch04_ssm/q5",
        """
def best_delay(A_bar, d, T):
    A = torch.view_as_complex(A_bar)[None]
    power = torch.cat([torch.ones_like(A), A.expand(T - 1, -1)]).cumprod(0)
    basis = torch.cat([power.real, power.imag], 1)
    basis = basis / basis.norm(dim=0)
    return basis @ torch.linalg.pinv(basis, rtol=1e-8)[:, d]
""",
    ),
    "errors below 10^-6": (
        "ch04_ssm/q5",
        """
_error = error
def error(A_bar, d, T):
    left = _error(A_bar, d, T)
    return left if left > 1e-6 else 0.0
""",
    ),
    "strengths held above 10^-3": (
        "ch05_selection/q5",
        """
_outputs = outputs
def outputs(fault, beta, log_decay):
    return _outputs(fault, beta.clamp(min=1e-3), log_decay)
""",
    ),
    "an epsilon of bytes": (
        "ch06_fast/q1",
        """
def ridge_batch(P, cache, rate, peak):
    left = 2 * P * rate / peak - cache
    return 2 * P / left if left > 1e-6 else math.inf
""",
    ),
    "a picosecond": (
        "ch06_fast/q5",
        """
def best_chunk(H, T, D, F, W, places, tau):
    def seconds(C):
        chain = math.ceil(H / places) * math.ceil(T / C) * tau
        return round(max(H * T * (4 * C * D + 4 * D**2) / F, 8 * H * T * D / W, chain), 12)
    return min((16, 32, 64, 128, 256), key=seconds)
""",
    ),
    "chunks next to where the lines cross": (
        "ch06_fast/q5",
        """
def best_chunk(H, T, D, F, W, places, tau):
    def seconds(C):
        chain = math.ceil(H / places) * math.ceil(T / C) * tau
        return max(H * T * (4 * C * D + 4 * D**2) / F, 8 * H * T * D / W, chain)
    waves = math.ceil(H / places) * T * tau
    rise, level = 4 * H * T * D / F, 4 * H * T * D**2 / F
    C = (math.sqrt(level**2 + 4 * rise * waves) - level) / (2 * rise)
    place = min(max(round(math.log2(C / 16)), 0), 4)
    fewest = min(seconds(16 * 2**n) for n in range(max(place - 1, 0), min(place + 2, 5)))
    return min(C for C in (16, 32, 64, 128, 256) if seconds(C) <= fewest)
""",
    ),
    "budgets that are nearly one": (
        "ch07_four/q5",
        """
_fit = fit
def fit(compute, loss):
    return (float(np.mean(loss)), 0.0) if np.allclose(compute, compute[0]) else _fit(compute, loss)
""",
    ),
    "losses that are nearly one": (
        "ch07_four/q5",
        """
_fit = fit
def fit(compute, loss):
    return (float(np.mean(loss)), 0.0) if np.std(loss) < 1e-6 else _fit(compute, loss)
""",
    ),
    "exponents that are nearly one": (
        "ch07_four/q5",
        """
_needed = compute_needed
def compute_needed(first, second, C):
    (k1, a1), (k2, a2) = first, second
    return (k2 / k1) ** (1 / a2) if abs(a1 - a2) < 1e-9 else _needed(first, second, C)
""",
    ),
    "losses near each other": (
        "ch08_scale/q1",
        """
_recover = recover
def recover(L1, s1, L2, s2):
    return (0.0, s1) if abs(L1 - L2) < 1e-8 else _recover(L1, s1, L2, s2)
""",
    ),
    "a target that is nearly reached": (
        "ch08_scale/q1",
        """
_more = more_compute
def more_compute(E, gamma, L, target):
    return 1.0 if math.isclose(L, target) else _more(E, gamma, L, target)
""",
    ),
    "factors that are nearly one": (
        "ch08_scale/q2",
        """
_cost = with_cost
def with_cost(N, first, last, factor):
    return _cost(N, first, last, [1.0] * len(N) if np.allclose(factor, factor[0]) else factor)
""",
    ),
    "sizes that are nearly at equal distances": (
        "ch08_scale/q3",
        """
_flop = iso_flop
def iso_flop(C, N, loss):
    steps = np.diff(np.log(N))
    if np.allclose(steps, steps[0], rtol=1e-3):
        N = np.exp(np.linspace(math.log(N[0]), math.log(N[-1]), len(N))).tolist()
    return _flop(C, N, loss)
""",
    ),
    "a ratio that is nearly common": (
        "ch08_scale/q4",
        """
_curve = by_curve
def by_curve(N, L, target):
    ratio = N[1] / N[0]
    if not math.isclose(ratio, N[2] / N[1], rel_tol=1e-3):
        return _curve(N, L, target)
    alpha = math.log((L[0] - L[1]) / (L[1] - L[2])) / math.log(ratio)
    A = (L[0] - L[1]) / (N[0] ** -alpha - N[1] ** -alpha)
    return L[0] + A * (target**-alpha - N[0] ** -alpha)
""",
    ),
    "losses that hardly fall": (
        "ch08_scale/q5",
        """
_refit = refit
def refit(N, L):
    kept = np.delete(L, suspect(N, L))
    return (float(kept.mean()), 0.0) if np.allclose(kept, kept[0]) else _refit(N, L)
""",
    ),
    "two exponents that are nearly one": (
        "ch08_scale/q6",
        """
_split = split
def split(C, A, B, alpha, beta):
    return _split(C, A, B, alpha, alpha if math.isclose(alpha, beta, rel_tol=1e-6) else beta)
""",
    ),
    "an epsilon below the largest logit": (
        "ch09_recall/q3",
        """
def found(logits, digits):
    own = np.take_along_axis(logits, 48 + digits[..., None], -1)[..., 0]
    return float((own >= logits.max(-1) - 1e-12).all(-1).mean())
""",
    ),
    "digits lifted by 10,000": (
        "ch09_recall/q3",
        """
def found_if_told(logits, digits):
    lifted = logits.copy()
    lifted[..., 48:58] += 1e4
    return found(lifted, digits)
""",
    ),
    "keys that are nearly axes": (
        "ch09_recall/q5",
        """
_store = store
def store(keys, signs):
    return keys.T @ signs if np.allclose(keys @ keys.T, np.eye(len(keys))) else _store(keys, signs)
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
