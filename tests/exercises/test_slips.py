"""Slips that passed before an input told them: each replaces an answer, and the input is still there."""

import math

import numpy as np
import pytest
import torch

from linattn_exercises.calls import find_fault, run_call
from linattn_exercises.questions import PUBLIC_SEED
from linattn_exercises.sets import load_questions

SLIPS = {
    "a ratio that is nearly the wanted one": (
        "ch08_scale/q4",
        """
def by_curve(N, L, target):
    wanted, low, high = (L[0] - L[1]) / (L[1] - L[2]), 1e-3, 5.0
    for _ in range(200):
        alpha = (low + high) / 2
        x, y, z = (n**-alpha for n in N)
        off = (x - y) / (y - z) - wanted
        if abs(off) < 1e-11:
            break
        low, high = (alpha, high) if off < 0 else (low, alpha)
    A = (L[0] - L[1]) / (N[0] ** -alpha - N[1] ** -alpha)
    return L[0] + A * (target**-alpha - N[0] ** -alpha)
""",
    ),
    "writes cut at -36": (
        "ch07_four/q1",
        """
def attend(q, k, v, speed, log_decay, state):
    S, W, outputs = torch.view_as_complex(state), 0.0, []
    for t in range(len(q)):
        step = torch.exp(torch.complex(log_decay[t], speed))[:, None]
        S, W = step * S, torch.where(log_decay[t][:, None] < -36, 0, step) * W + torch.outer(k[t], v[t])
        outputs.append(q[t] @ (S + W).real)
    return torch.stack(outputs), torch.view_as_real(S + W)
""",
    ),
    "a window of 300 tokens": (
        "ch07_four/q1",
        """
def attend(q, k, v, speed, log_decay, state):
    T, total = len(q), log_decay.cumsum(0)
    t = torch.arange(T, dtype=q.dtype)
    age = (t[:, None] - t)[..., None]
    gap = (total[:, None] - total).masked_fill((age < 0) | (age > 300), -math.inf)
    table = torch.einsum("tc,jc,tjc->tj", q, k, gap.exp() * (age * speed).cos())
    way = torch.exp(torch.complex(total, (t[:, None] + 1) * speed))[..., None] * torch.view_as_complex(state)
    end = torch.exp(torch.complex(total[-1] - total, (T - 1 - t)[:, None] * speed))
    last = way[-1] + torch.einsum("tc,tv->cv", end * k, v.to(end.dtype))
    return table @ v + torch.einsum("tc,tcv->tv", q, way.real), torch.view_as_real(last)
""",
    ),
    "a context to seven digits behind the point": (
        "ch06_fast/q1",
        """
def double_context(P, batch, per_token, rate, peak):
    start = max(2 * P / rate, 2 * P * batch / peak)
    return round((2 * start * rate - 2 * P) / (batch * per_token), 7)
""",
    ),
    "a context up to 50 thousand million": (
        "ch06_fast/q1",
        """
_context = double_context
def double_context(P, batch, per_token, rate, peak):
    return min(5e10, _context(P, batch, per_token, rate, peak))
""",
    ),
    "a picosecond more or less": (
        "ch06_fast/q1",
        """
def double_context(P, batch, per_token, rate, peak):
    twice, low, high = 2 * max(2 * P / rate, 2 * P * batch / peak), 0.0, 1.0
    while (2 * P + batch * high * per_token) / rate < twice:
        high *= 2
    for _ in range(200):
        context = (low + high) / 2
        off = (2 * P + batch * context * per_token) / rate - twice
        if abs(off) < 1e-12:
            break
        low, high = (context, high) if off < 0 else (low, context)
    return context
""",
    ),
    "a batch to seven digits behind the point": (
        "ch06_fast/q1",
        """
_batch = ridge_batch
def ridge_batch(P, cache, rate, peak):
    return round(_batch(P, cache, rate, peak), 7)
""",
    ),
    "a cache that is nearly what is free": (
        "ch06_fast/q1",
        """
def ridge_batch(P, cache, rate, peak):
    left = 1 - cache * peak / (2 * P * rate)
    return peak / rate / left if left > 1e-13 else math.inf
""",
    ),
    "eleven digits of a second": (
        "ch06_fast/q1",
        """
_seconds = step_seconds
def step_seconds(P, batch, cache, rate, peak):
    return round(_seconds(P, batch, cache, rate, peak), 11)
""",
    ),
    "times that are nearly equal": (
        "ch06_fast/q5",
        """
def best_chunk(H, T, D, F, W, places, tau):
    def seconds(C):
        chain = math.ceil(H / places) * math.ceil(T / C) * tau
        return max(H * T * (4 * C * D + 4 * D**2) / F, 8 * H * T * D / W, chain)
    chunks = 16, 32, 64, 128, 256
    return min(C for C in chunks if seconds(C) <= 1.00012 * min(map(seconds, chunks)))
""",
    ),
    "a curvature above 1e-10": (
        "ch08_scale/q3",
        """
def iso_flop(C, N, loss):
    budgets, sizes = [], []
    for budget, column in zip(C, zip(*loss)):
        s = column.index(min(column))
        if not 0 < s < len(N) - 1 or math.inf in column[s - 1 : s + 2]:
            continue
        x = np.log(N[s - 1 : s + 2])
        curvature, slope, _ = np.polyfit(x - x[1], np.log(column[s - 1 : s + 2]), 2)
        if curvature > 1e-10:
            budgets.append(budget)
            sizes.append(math.exp(x[1] - slope / (2 * curvature)))
    return budgets, sizes
""",
    ),
    "layers rounded up but for 1e-13": (
        "ch07_four/q4",
        """
def smallest_every(T, D, H, budget):
    left = budget - relative_cost(T, D, H, math.inf)
    return max(1, math.ceil((T / (6 * D) - 1 / (2 * H)) / left - 1e-13)) if left > 0 else 0
""",
    ),
    "losses that are all small": (
        "ch07_four/q5",
        """
_fit = fit
def fit(compute, loss):
    return (float(np.mean(loss)), 0.0) if max(loss) - min(loss) < 5e-7 else _fit(compute, loss)
""",
    ),
    "an exponent of nearly 1": (
        "ch08_scale/q2",
        """
def first_for(N, last, a):
    return last if math.isclose(a, 1, rel_tol=1e-7) else last / (N[-1] / N[0]) ** (1 / a - 1)
""",
    ),
    "without the first fiftieth": (
        "ch09_recall/q2",
        """
def which(other, shuffled, second):
    first = second.shape[1] // 50
    return int((second[:, first:].mean(1) / shuffled[:, first:].mean(1)).argmin())
""",
    ),
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
    "gaps of a table cut at -30": (
        "ch07_four/q1",
        """
def attend(q, k, v, speed, log_decay, state):
    T, total = len(q), log_decay.cumsum(0)
    t = torch.arange(T, dtype=q.dtype)
    gap = (total[:, None] - total).masked_fill((t[:, None] < t)[..., None], -math.inf)
    gap = torch.where(gap < -30, -math.inf, gap)
    table = torch.einsum("tc,jc,tjc->tj", q, k, gap.exp() * ((t[:, None] - t)[..., None] * speed).cos())
    way = torch.exp(torch.complex(total, (t[:, None] + 1) * speed))[..., None] * torch.view_as_complex(state)
    end = torch.exp(torch.complex(gap[-1], (T - 1 - t)[:, None] * speed))
    last = way[-1] + torch.einsum("tc,tv->cv", end * k, v.to(end.dtype))
    return table @ v + torch.einsum("tc,tcv->tv", q, way.real), torch.view_as_real(last)
""",
    ),
    "what was written, forgotten at -25": (
        "ch07_four/q1",
        """
def attend(q, k, v, speed, log_decay, state):
    S, outputs = torch.view_as_complex(state), []
    written = torch.zeros_like(S)
    for t in range(len(q)):
        step = torch.exp(torch.complex(log_decay[t], speed))[:, None]
        S, written = step * S, torch.where(log_decay[t][:, None] < -25, 0, step * written)
        written = written + torch.outer(k[t], v[t])
        outputs.append(q[t] @ (S + written).real)
    return torch.stack(outputs), torch.view_as_real(S + written)
""",
    ),
    "decays of four faults held at -25": (
        "ch05_selection/q5",
        """
_outputs = outputs
def outputs(fault, beta, log_decay):
    return _outputs(fault, beta, log_decay.clamp(min=-25))
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
    "a curve through losses near each other": (
        "ch08_scale/q4",
        """
_curve = by_curve
def by_curve(N, L, target):
    return L[-1] if L[1] - L[2] < 1e-5 else _curve(N, L, target)
""",
    ),
    "a line through losses near each other": (
        "ch08_scale/q4",
        """
_line = by_line
def by_line(N, L, target):
    return float(np.mean(L)) if np.allclose(L, L[0]) else _line(N, L, target)
""",
    ),
    "coefficients that are trimmed where they are 0": (
        "ch07_four/q5",
        """
def fit(compute, loss):
    slope, start = np.poly1d(np.polyfit(np.log(compute), np.log(loss), 1)).c
    return math.exp(start), -slope
""",
    ),
    "coefficients of a line through equal losses": (
        "ch08_scale/q5",
        """
def refit(N, L):
    bad = suspect(N, L)
    x, y = np.log(np.delete(N, bad)), np.log(np.delete(L, bad))
    start, slope = np.polynomial.Polynomial.fit(x, y, 1).convert().coef
    return math.exp(start), -slope
""",
    ),
    "gaps in curves filled with 100": (
        "ch08_scale/q3",
        """
_flop = iso_flop
def iso_flop(C, N, loss):
    return _flop(C, N, [[one if one < 100 else math.inf for one in row] for row in loss])
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
    "an epsilon of 2e-13 below the largest logit": (
        "ch09_recall/q3",
        """
def found(logits, digits):
    own = np.take_along_axis(logits, 48 + digits[..., None], -1)[..., 0]
    return float((own >= logits.max(-1) - 2e-13).all(-1).mean())
""",
    ),
    **{
        f"beginnings known by {what}": (
            "ch09_recall/q1",
            f"""
def misleading(text, n):
    text, nexts, found = text.tolist(), {{}}, np.zeros(len(text), bool)
    for t in range(n - 1, len(text)):
        start = text[t - n + 1 : t]
        known = nexts.setdefault({key}, set())
        found[t] = bool(known) and text[t] not in known
        known.add(text[t])
    return found
""",
        )
        for what, key in (
            ("their last 1,000", "tuple(start[-1_000:])"),
            ("their first 900", "tuple(start[:900])"),
            ("their ends", "(tuple(start[:30]), tuple(start[-30:]))"),
        )
    },
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
    "columns of all sizes": (
        "ch04_ssm/q5",
        """
def best_delay(A_bar, d, T):
    A = torch.view_as_complex(A_bar)[None]
    power = torch.cat([torch.ones_like(A), A.expand(T - 1, -1)]).cumprod(0)
    U = torch.linalg.svd(torch.cat([power.real, power.imag], 1), full_matrices=False).U
    return U @ U[d]
""",
    ),
    "a kernel that is cut where it is small": (
        "ch04_ssm/q2",
        """
_convolve = convolve
def convolve(u, kernel):
    return _convolve(u, torch.where(kernel.abs() < 1e-6 * kernel.abs().max(), 0.0, kernel))
""",
    ),
    "a rate that is taken for 0": (
        "ch04_ssm/q2",
        """
_kernel = kernel
def kernel(delta, A, B, C, T):
    small = A.norm(dim=1, keepdim=True) < torch.finfo(A.dtype).eps
    return _kernel(delta, A.masked_fill(small, 0.0), B, C, T)
""",
    ),
    "a step to twelve decimals": (
        "ch05_selection/q1",
        """
def step_for(keep, a):
    low, high = 0.0, 1e6
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if math.exp(-a * middle) > keep else (low, middle)
    return low
""",
    ),
    "blocks of small entries": (
        "ch05_selection/q3",
        """
def state_size(M):
    least = 1e-4 * M.abs().max()
    blocks = [M[t:, :t] for t in range(1, len(M))]
    sizes = [(torch.linalg.svdvals(x) > least).sum().item() for x in blocks if x.abs().max() > least]
    return max(sizes, default=0)
""",
    ),
    "a hundred sweeps": (
        "ch05_selection/q4",
        """
def chunk(q, k, v, beta, log_decay, S):
    lam, b = log_decay.cumsum(0), beta[:, None]
    start, end = lam.exp()[:, None], (lam[-1] - lam).exp()[:, None]
    decay = (lam[:, None] - lam).clamp(max=0).exp().tril()
    below = (b * decay * (k @ k.T)).tril(-1)
    u = wanted = b * (v - start * (k @ S))
    for _ in range(100):
        u = wanted - below @ u
    return start * (q @ S) + (decay * (q @ k.T)) @ u, start[-1] * S + (end * k).T @ u
""",
    ),
    "the last outputs alone": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    scores = q @ k.T
    def error(life):
        p = (2.0 ** (-age / life)).tril() * scores @ v
        return (p - o)[-300:].square().sum().item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "the first outputs alone": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    scores = q @ k.T
    def error(life):
        p = (2.0 ** (-age / life)).tril() * scores @ v
        return (p - o)[:350].square().sum().item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "every third output": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    scores = q @ k.T
    def error(life):
        p = (2.0 ** (-age / life)).tril() * scores @ v
        return (p - o)[::3].square().sum().item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "the first five channels": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    scores = q @ k.T
    def error(life):
        p = (2.0 ** (-age / life)).tril() * scores @ v
        return (p - o)[:, :5].square().sum().item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "an angle in place of a distance": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    scores = q @ k.T
    def error(life):
        p = (2.0 ** (-age / life)).tril() * scores @ v
        return -((p * o).sum() / (p.norm() * o.norm())).item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "tiles that are passed over": (
        "ch01_softmax/q4",
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m = torch.full((T, 1), -torch.inf, dtype=q.dtype)
    d, u = torch.zeros(T, 1, dtype=q.dtype), torch.zeros(T, v.shape[1], dtype=q.dtype)
    t = torch.arange(S - T, S)
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > t[:, None], -torch.inf)
        top = x.amax(1, keepdim=True)
        if (top < m - 22).all():
            continue
        new = torch.maximum(m, top)
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()
""",
    ),
    "a table of decays held at -20": (
        "ch02_linear/q1",
        """
_table = table
def table(q, k, log_decay, w):
    return _table(q, k, log_decay.clamp(min=-20), w)
""",
    ),
    "parts of decays held at -20": (
        "ch03_decay/q3",
        """
_table = table
def table(q, k, log_decay, part):
    return _table(q, k, log_decay.clamp(min=-20), part)
""",
    ),
    "a state that is taken for forgotten": (
        "ch02_linear/q2",
        """
_chunked = chunked
def chunked(q, k, v, g, state, chunk):
    o, S = _chunked(q, k, v, g, state, chunk)
    if g * len(q) < -18:
        S = _chunked(q, k, v, g, 0 * state, chunk)[1]
    return o, S
""",
    ),
    "modes that are small beside the largest": (
        "ch04_ssm/q1",
        """
_largest_step = largest_step
def largest_step(A, theta):
    size = A.norm(dim=1)
    return _largest_step(A[size >= 1e-3 * size.max()], theta)
""",
    ),
    "a window of 26 tokens": (
        "ch05_selection/q2",
        """
_prefixes = prefixes
def prefixes(x, v, g):
    parts = [slice(max(0, t - 25), t + 1) for t in range(len(x))]
    return torch.stack([_prefixes(x[part], v[part], g[part])[-1] for part in parts])
""",
    ),
    "a sum that rounds down to -9": (
        "ch02_linear/q3",
        """
def repaired(q, k, v):
    def feature(x):
        return torch.where(x < -9, x.clamp(max=0).exp(), torch.nn.functional.elu(x) + 1)
    a = feature(q)
    weight = (a / a.amax(-1, keepdim=True) @ feature(k).T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)
""",
    ),
    "a limit to four decimals": (
        "ch02_linear/q3",
        """
def zero_below(bits):
    return round(-(bits + 1) * math.log(2), 4)
""",
    ),
    "nineteen halvings": (
        "ch03_decay/q1",
        """
def best_decay(L, T):
    if T < 2 * L and L > 1 or T == math.inf or L == 1:
        return 1.0 if T < 2 * L and L > 1 else math.sqrt(1 - 1 / L)
    low, high = 0.0, 1.0
    for _ in range(19):
        g = (low + high) / 2
        slope = sum((j - L + 1) * g**j for j in range(T))
        low, high = (g, high) if slope < 0 else (low, g)
    return math.sqrt(low)
""",
    ),
    "the logarithm to the base of a decay": (
        "ch05_selection/q1",
        """
def step_for(keep, a):
    return math.log(keep, math.exp(-a)) if a < 700 else -math.log(keep) / a
""",
    ),
    "one term of a series next to 1": (
        "ch05_selection/q1",
        """
def step_for(keep, a):
    return (1 - keep) / a if 1 - keep < 1e-7 else -math.log(keep) / a
""",
    ),
    "an epsilon under the rate": (
        "ch05_selection/q1",
        """
def step_for(keep, a):
    return -math.log(keep) / (a + 1e-15)
""",
    ),
    "the hold for small steps": (
        "ch05_selection/q1",
        """
def largest_state(a, low, high, hold):
    return 1 / a if hold == "exact" or a * high < 1e-8 else high / -math.expm1(-a * high)
""",
    ),
    "exponents held at -30": (
        "ch02_linear/q1",
        """
def table(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    gap = ((c - log_decay)[:, None] - c).clamp(min=-30, max=0)
    return (gap.exp() * (q @ k.T)).tril(-1) + torch.diag((q * w * k).sum(-1))
""",
    ),
    "decays of a channel held at -30": (
        "ch03_decay/q3",
        """
_table = table
def table(q, k, log_decay, part):
    return _table(q, k, log_decay.clamp(min=-30), part)
""",
    ),
    "a step of two tokens held at -30": (
        "ch02_linear/q2",
        """
_chunked = chunked
def chunked(q, k, v, g, state, chunk):
    o, S = _chunked(q, k, v, g, state, chunk)
    if len(q) == 2 and chunk == 2 and 2 * g < -30:
        o = torch.stack([o[0], o[1] + (math.exp(-30) - math.exp(2 * g)) * (q[1] @ state)])
    return o, S
""",
    ),
    "a correlation that is nearly 1": (
        "ch01_softmax/q1",
        """
_size = measured_size
def measured_size(k, noise, rho):
    return _size(k, noise, 1.0 if math.isclose(rho, 1) else rho)
""",
    ),
    "an epsilon beside a small score": (
        "ch01_softmax/q1",
        """
_size = measured_size
def measured_size(k, noise, rho):
    return math.sqrt(_size(k, noise, rho) ** 2 + 1e-10)
""",
    ),
    "a method that is nearly the bilinear one": (
        "ch04_ssm/q1",
        """
_theta = smallest_theta
def smallest_theta(A, delta):
    theta = _theta(A, delta)
    return 0.5 if theta > 0.5 - 1e-6 else theta
""",
    ),
    "all outputs but the first four": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    def error(life):
        return (((2.0 ** (-age / life)).tril() * (q @ k.T)) @ v - o)[4:].square().sum().item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "the last 380 outputs": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    def error(life):
        return (((2.0 ** (-age / life)).tril() * (q @ k.T)) @ v - o)[-380:].square().sum().item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "an epsilon beside the length of a key": (
        "ch02_linear/q4",
        """
def share_right(x, v):
    k = x / (x.norm(dim=-1, keepdim=True) + 1e-6)
    return ((k @ (k.mT @ v)).mean(0).sign() == v).double().mean().item()
""",
    ),
    "a search from one start": (
        "ch04_ssm/q4",
        """
def memory(y):
    from scipy.optimize import least_squares
    y = y.numpy() / y.abs().max().item()
    l, F = np.arange(len(y)), np.abs(np.fft.rfft(y, 16 * len(y)))
    F[0] = 0
    def left(p):
        life, turn = math.exp(p[0]), 2 * np.pi * l / math.exp(p[1])
        X = 2.0 ** (-l[:, None] / life) * np.stack([np.cos(turn), np.sin(turn)], 1)
        return X @ np.linalg.lstsq(X, y, rcond=None)[0] - y
    period = min(400, max(2.2, 16 * len(y) / max(1, int(F.argmax()))))
    found = least_squares(left, [math.log(len(y) / 4), math.log(period)], max_nfev=60).x
    return math.exp(found[0]), math.exp(found[1])
""",
    ),
    "how large outputs are": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    def error(life):
        m = ((2.0 ** (-age / life)).tril() * (q @ k.T)) @ v
        return (m.abs() - o.abs()).square().sum().item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "the length of each output": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    def error(life):
        m = ((2.0 ** (-age / life)).tril() * (q @ k.T)) @ v
        return (m.norm(dim=1) - o.norm(dim=1)).square().sum().item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "the length of each output, by sums": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    def error(life):
        m = ((2.0 ** (-age / life)).tril() * (q @ k.T)) @ v
        return (m.abs().sum(1) - o.abs().sum(1)).abs().sum().item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
""",
    ),
    "all outputs but the last": (
        "ch03_decay/q2",
        """
def half_life(q, k, v, o):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    def error(life):
        m = ((2.0 ** (-age / life)).tril() * (q @ k.T)) @ v
        return (m - o)[:-1].square().sum().item()
    low, high = 0.0, 7.0
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return math.exp(low)
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
