"""Checks of ``ch02_linear``, generated from master/*.py by ``make exercises``: edit those."""


import math
from statistics import NormalDist

import torch


from linattn_exercises.calls import Call
from linattn_exercises.comparison import Close, Exactly, Within
from linattn_exercises.questions import QuestionInfo, define_question


VERSION = "e9f8c7a566ce"
INFO = {
    "q1": QuestionInfo(
        "ch02_linear", "q1", 'From a step to a table',
        "derive", points=4, minutes=20, level=2,
    ),
    "q2": QuestionInfo(
        "ch02_linear", "q2", 'A chunk form that forgets',
        "implement", points=5, minutes=30, level=3,
    ),
    "q3": QuestionInfo(
        "ch02_linear", "q3", 'The denominator that vanishes',
        "diagnose", points=4, minutes=25, level=3,
    ),
    "q4": QuestionInfo(
        "ch02_linear", "q4", 'When must a state start to err?',
        "measure", points=4, minutes=35, level=3,
    ),
    "q5": QuestionInfo(
        "ch02_linear", "q5", 'From which length on is a state the smaller memory?',
        "derive", points=3, minutes=15, level=1,
    ),
}


# --- q1: From a step to a table ---


def step_by_step(q, k, v, log_decay, w):   # [T, K] twice, [T, V], [T], [K]
    S, o = torch.zeros(q.shape[1], v.shape[1], dtype=q.dtype), []
    for t in range(len(q)):
        write = torch.outer(k[t], v[t])
        o.append(q[t] @ (S + w[:, None] * write))
        S = log_decay[t].exp() * S + write
    return torch.stack(o)


def table(q, k, log_decay, w):
    """A [T, T] with step_by_step(q, k, v, log_decay, w) = A @ v."""
    c = log_decay.cumsum(0)
    gap = (c - log_decay)[:, None] - c        # log of alpha_{j+1..t-1}
    past = torch.ones_like(gap).tril(-1).bool()
    decay = gap.masked_fill(~past, -torch.inf).exp()
    return decay * (q @ k.T) + torch.diag((q * w * k).sum(-1))


def _sequence(rng, T, K, V):
    return [torch.from_numpy(rng.normal(size=(T, n))) for n in (K, K, V)]


@define_question(INFO["q1"], own_code=True, table=table)
def q1(rng):
    calls = []
    for T, K, strength in ((6, 3, 0.3), (1, 3, 0.3), (200, 5, 1.0), (200, 3, 0.02), (200, 16, 10.0)):
        q, k, u = _sequence(rng, T, K, K)
        log_decay = -strength * torch.from_numpy(rng.exponential(size=T))
        bounds = {"operations": 40} | ({"work": T * T * (K + 32)} if T == 200 else {})
        inputs = f"T = {T}, log decays near {-strength}"
        calls.append(Call("table", (q, k, log_decay, u[0]), inputs, Close(1e-8), bounds=bounds))
    for T in (1, 2, 2, 3, 4, 5):  # any width; some tokens keep all or forget all, some entries are 0
        K = 1 if T == 3 else int(rng.integers(1, 5))
        q, k, u = _sequence(rng, T, K, K)
        log_decay = torch.from_numpy(rng.choice([0.0, -0.1, -1.0, -40.0], size=T))
        for x in (q, k, u):
            x[rng.random(x.shape) < rng.choice([0.0, 0.0, 0.3])] = 0.0
        inputs = f"T = {T}, K = {K}, log decays {log_decay.tolist()}"
        calls.append(Call("table", (q, k, log_decay, u[0]), inputs, Close(1e-8), bounds={"operations": 40}))
    q, k, u = _sequence(rng, 6, 3, 3)
    log_decay = torch.tensor([-0.1, -0.2, -1000.0, -0.3, -1000.0, -0.1], dtype=torch.float64)
    inputs = f"T = 6, K = 3, log decays {log_decay.tolist()}"
    calls.append(Call("table", (q, k, log_decay, u[0]), inputs, Close(1e-8), bounds={"operations": 40}))
    often, once = (torch.full((200,), rate, dtype=torch.float64) for rate in (-40.0, -0.02))
    start = int(rng.integers(60, 90))
    often[::8], once[start : start + 60] = -0.1, -float(rng.uniform(35, 40))
    some = -torch.from_numpy(rng.exponential(size=200) * rng.integers(0, 2, size=200))  # half of them keep all
    drawn = [(often, "log decays down to -40"), (once, "60 tokens that forget all"), (some, "log decays of 0")]
    drawn.append((torch.full((200,), -1000.0, dtype=torch.float64), "log decays of -1000"))  # no finite mask is enough
    for log_decay, inputs in drawn:
        q, k, u = _sequence(rng, 200, 3, 3)
        bounds = {"operations": 40, "work": 200 * 200 * (3 + 32)}
        calls.append(Call("table", (q, k, log_decay, u[0]), f"T = 200, {inputs}", Close(1e-8), bounds=bounds))
    for lowest in (-float(rng.uniform(27, 28.5)), -float(rng.uniform(30.5, 31)), -100.0):
        q, k, u = _sequence(rng, 4, 2, 2)
        q[-1], k[0], k[1:] = 1e6, 1.0, 0.0  # a query so large that what little is left of the first key is seen
        log_decay = torch.from_numpy(rng.uniform(-0.2, -0.1, size=4))
        log_decay[int(rng.integers(1, 3))] = lowest
        inputs = f"T = 4, K = 2, log decays down to {lowest:.3g}, a large query"
        calls.append(Call("table", (q, k, log_decay, u[0]), inputs, Close(1e-8), bounds={"operations": 40}))
    return calls


# --- q2: A chunk form that forgets ---


def recurrent(q, k, v, g, state):   # [T, K] twice, [T, V], number, [K, V]
    S, o = state, []
    for t in range(len(q)):
        S = math.exp(g) * S + torch.outer(k[t], v[t])
        o.append(q[t] @ S)
    return torch.stack(o), S


def chunked(q, k, v, g, state, chunk):
    """The output [T, V] and the last state [K, V] of `recurrent`."""
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk)):
        i = torch.arange(len(Q), dtype=q.dtype)       # 0 ... C - 1
        gap = i[:, None] - i
        D = (g * gap.clamp(min=0)).exp().tril()       # [C, C]
        since = (g * (i + 1)).exp()[:, None]          # S was handed on
        left = (g * (len(Q) - 1 - i)).exp()[:, None]  # until the end
        o.append(since * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + (left * K).T @ V
    return torch.cat(o), S


@define_question(INFO["q2"], own_code=True, chunked=chunked)
def q2(rng):
    calls, small = [], []
    for T in (1, 1, 2, 3, 4, 6, 7, 8):  # any sizes; one chunk or many, whole or not
        chunk, K, V = (int(n) for n in rng.integers(1, (T + 3, 5, 5)))
        small.append((T, chunk, float(rng.choice([0.0, -0.2, -1.0, -3.0, -20.0])), K, V))
    for T, chunk, g, K, V in (
        (8, 4, -0.7, 3, 4),
        (11, 4, -0.7, 3, 4),
        (5, 8, -2.0, 3, 4),
        (6, 1, -0.3, 3, 4),
        (192, 64, -0.05, 3, 4),
        (120, 4, -0.3, 3, 4),
        (350, 256, -0.01, 3, 4),
        (200, 100, -20.0, 3, 4),
        (5, 2, 0.0, 1, 1),
        (25, 10, -20.0, 1, 2),
        (110, 128, -0.1, 2, 1),
        (150, 40, 0.0, 1, 1),
        (1000, 900, float(rng.uniform(-1.8, -1.6)), 3, 4),
        (9, 4, -3.0, 3, 4),
        (16, 8, -2.05, 3, 4),  # what is left of the state after a chunk is little, and is seen
        (4, 4, -3.7, 3, 4),
        (1000, 100, -0.02, 40, 40),
        (1200, 600, -0.002, 40, 40),
        (128, 64, -0.03, 64, 64),
        *small,
        (700, 600, -20.0, 3, 4),  # the future is e^11980 times too large
        (7, 3, -20.0, 3, 2),  # what is left of a large state is seen
    ):
        q, k, v = _sequence(rng, T, K, V)
        state = torch.from_numpy(rng.normal(size=(K, V)))
        inputs = f"T = {T}, chunks of {chunk}, gamma = {math.exp(g):.2g}"
        if (T, chunk, g, K, V) == (7, 3, -20.0, 3, 2):
            state, inputs = 1e6 * state, f"{inputs}, a large state"
        n = -(-T // chunk)
        work = n * chunk * ((chunk + 8) * (K + V) + 4 * K * V + 16 * chunk)
        size = n * chunk * max(chunk, V)
        most = {"entries": size, "integers": size, "truths": 8 * size}
        most |= {"operations": 40 * n + 40, "work": work}
        bounds = most if T >= 100 else {}
        calls.append(Call("chunked", (q, k, v, g, state, chunk), inputs, Close(1e-8), bounds=bounds))
    states = 1e6 * float(rng.uniform(0.7, 1.5)) * torch.ones(1, 1).double()
    usual = torch.from_numpy(rng.uniform(0.08, 0.12, size=(3, 2, 1)))
    large = torch.tensor([[[0.0], [1.0]], [[1e3], [0.1]], [[1e3], [0.1]]]).double() * float(rng.uniform(0.7, 1.5))
    asked = ((usual, -10.0, states, "state"), (10 * usual, -15.5, states, "state"), (large, -20.0, 0.0 * states, "key and value"))
    for (q, k, v), g, state, loud in asked:
        inputs = f"T = 2, chunks of 2, gamma = {math.exp(g):.2g}, a large {loud}"
        calls.append(Call("chunked", (q, k, v, g, state, 2), inputs, Close(1e-8)))
    return calls


# --- q3: The denominator that vanishes ---


def suspect(q, k, v):                  # [T, K], [T, K], [T, V], float32
    a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


fault = "B"


def zero_below(bits):
    """The x at and below which elu(x) + 1 comes out as exactly 0."""
    return -(bits + 1) * math.log(2)


def repaired(q, k, v):
    """Causal normalised linear attention with the map elu(x) + 1."""
    def log_feature(x):
        return torch.where(x > 0, x.clamp(min=0).log1p(), x)

    a, b = log_feature(q), log_feature(k)
    a = (a - a.amax(-1, keepdim=True)).exp()   # cancels in the fraction
    weight = (a @ b.exp().T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


def _entries(rng, T, low, high, K=4, V=3):
    q, k = (torch.from_numpy(rng.uniform(low, high, (T, K))).float() for _ in range(2))
    return q, k, torch.from_numpy(rng.normal(size=(T, V))).float()


def _two_levels(rng, part):
    """All entries near -60, but those of every second query, of the later keys, or of both, near 5."""
    q, k, v = _entries(rng, 12, -60, -58)
    if part != "keys":
        q[1::2] += 63.0
    if part != "queries":
        k[6:] += 63.0
    return q, k, v


@define_question(
    INFO["q3"],
    fault=fault,
    zero_below=zero_below,
    repaired=repaired,
    wrong_values={
        "fault": {
            "A": "No feature is negative, so nothing cancels. Print the features of x = -20.",
            "C": "Features grow like x, and entries stay below 5. Print the features of x = -20.",
            "D": "tril() keeps the diagonal: every query has at least itself. Print the features of x = -20.",
            "E": "Row = query, and sum(-1) runs over keys, as it should. Print the features of x = -20.",
        }
    },
)
def q3(rng):
    others = (2, int(rng.integers(3, 8)), int(rng.integers(12, 24)), 53, 64, 113)
    calls = [Call("fault", (), "", Exactly())]
    calls += [Call("zero_below", (bits,), f"{bits} bits", Close(1e-6)) for bits in (24, 11, 8, *others)]
    cases = ((12, -2, 5), (1, -60, 5), (9, -25, -18), (12, -16, -8), (12, -60, -50), (20, -60, 5))
    for n, (T, low, high) in enumerate((*cases, (100, -60, 5), (100, 4, 5))):
        inputs = f"T = {T}, entries from {low} to {high}"
        calls.append(Call("repaired", _entries(rng, T, low, high, 2 + n, 8 - n), inputs, Close(1e-4)))
    zeros = _entries(rng, 12, -2, 5)
    zeros[0][::2, 0], zeros[1][::3, 1] = 0.0, 0.0
    calls.append(Call("repaired", zeros, "T = 12, entries from -2 to 5, some of them 0", Close(1e-4)))
    ones = _entries(rng, 12, -2, 5, 1)
    ones[0][::2], ones[1][::3] = 0.0, 0.0  # similarities of exactly 1, whose logarithm is 0
    calls.append(Call("repaired", ones, "T = 12, K = 1, some entries 0", Close(1e-4)))
    apart = _entries(rng, 12, -60, -58)
    apart[0][:, 0] += 63.0
    apart[1][:, 1] += 63.0  # the large channel of a query meets only small ones
    calls.append(Call("repaired", apart, "T = 12, queries near 5 in channel 0, keys in channel 1", Close(1e-4)))
    for part, inputs in (
        ("queries", "some queries near -60, all keys"),
        ("keys", "queries and early keys near -60"),
        ("both", "some queries and early keys near -60, the others near 5"),
    ):
        calls.append(Call("repaired", _two_levels(rng, part), inputs, Close(1e-4)))
    for T, K, least, most in ((30, 1, -10, -9.2), (30, 2, -10, -9.2), (12, 1, -60, -59)):
        inputs = f"T = {T}, K = {K}, entries from {least} to {most}"
        calls.append(Call("repaired", _entries(rng, T, least, most, K), inputs, Close(1e-4)))
    while True:  # where the sum of elu(x) and 1 has four digits left, and differs in the fourth
        near = _entries(rng, 4, -9, -8.4, 1)
        near[2].sign_()[1] = -near[2][0]
        if (suspect(*near) - repaired(*near)).abs().max() > 1.5e-4:
            break
    calls.append(Call("repaired", near, "T = 4, K = 1, entries from -9 to -8.4", Close(1e-4)))
    for top in (-46, -42, -37, -30, -20):  # products that vanish, though no query is as small as a key
        q, k, v = _entries(rng, 8, top - 3, top, 2)
        k = torch.from_numpy(rng.uniform(-60, -58, k.shape)).float()
        calls.append(Call("repaired", (q, k, v), f"T = 8, queries near {top}, keys near -59", Close(1e-4)))
    for low, high in ((-60, 5), (-60, 5), (-60, -58), (-20, -14), (-2, 5)) * 2:  # any sizes, entries alike
        T, K, V = (int(n) for n in rng.integers(1, 6, size=3))
        q, k, v = _entries(rng, T, low, high, K, V)
        for x in (q, k):
            x[rng.random((T, K)) < rng.choice([0.0, 0.4])] = float(rng.choice([-60, 0, 5]))
        inputs = f"T = {T}, K = {K}, V = {V}, entries from {low} to {high}, perhaps some of -60, 0 or 5"
        calls.append(Call("repaired", (q, k, v), inputs, Close(1e-4)))
    return calls


# --- q4: When must a state start to err? ---


def predicted_pairs(K, H, accuracy):
    """Pairs at which the share of right signs is `accuracy`, a formula."""
    z = NormalDist().inv_cdf(accuracy)     # signal over noise
    return 1 + H * K / z**2


def share_right(x, v):
    """The share of right signs: x [H, n, K], v [n, V] of 1 and -1."""
    k = x / x.norm(dim=-1, keepdim=True)
    read = (k @ (k.mT @ v)).mean(0)        # [n, V], average of heads
    return (read.sign() == v).double().mean().item()


def must_err(K, H):
    """The smallest n at which exact recall of all values is impossible."""
    return H * K + 1


@define_question(
    INFO["q4"],
    predicted_pairs=predicted_pairs,
    share_right=share_right,
    must_err=must_err,
)
def q4(rng):
    calls = []
    for K, H, accuracy in ((32, 1, 0.75), (16, 4, 0.85), (48, 2, 0.95), (16, 8, 0.97), (16, 1, 0.7), (8, 16, 0.9), (4, 32, 0.85)):
        inputs = f"K = {K}, H = {H}, accuracy {accuracy}"
        calls.append(Call("predicted_pairs", (K, H, accuracy), inputs, Within(1.05)))
    for K, H, n, V in ((32, 1, 70, 40), (16, 4, 60, 50), (8, 3, 2, 300), (4, 6, 30, 80), (3, 4, 20, 90)):
        x = torch.from_numpy(rng.normal(size=(H, n, K)))
        v = torch.from_numpy(rng.normal(size=(n, V))).sign()
        calls.append(Call("share_right", (x, v), f"K = {K}, H = {H}, n = {n}", Close(1e-6)))
    x = torch.from_numpy(rng.choice([-2.0, 2.0], size=(1, 2, 1)))  # K = 1: what is read is often exactly 0
    v = torch.from_numpy(rng.choice([-1.0, 1.0], size=(2, 60)))
    calls.append(Call("share_right", (x, v), "K = 1, H = 1, n = 2", Close(1e-6)))
    for n, heads, alike in ((1, 3, 1), (1, 3, 1), (2, 2, 1), (2, 1, 0), (3, 2, 1), (4, 1, 0), (4, 1, 1)):  # keys along axes: answers are often 0
        H, K, V = 2 ** int(rng.integers(heads)), int(rng.integers(1, 4)), int(rng.integers(1, 9))  # in any rounding
        K, V = (K, V) if alike else (1, 9)
        axis = torch.eye(K, dtype=torch.float64)[torch.from_numpy(rng.integers(K, size=(H, n)))]
        # of all, as 2 / (2 + 1e-12) is not quite 4 / (4 + 1e-12), which makes no difference for large numbers
        length = float(rng.choice([0.5, 2.0, 4.0])) if alike else torch.from_numpy(2.0 ** (15 + rng.permutation(n))).reshape(1, n, 1)
        x = length * torch.from_numpy(rng.choice([-1.0, 1.0], size=(H, n, 1))) * axis
        v = torch.from_numpy(rng.choice([-1.0, 1.0], size=(n, V)))
        inputs = f"K = {K}, H = {H}, n = {n}, V = {V}, keys along axes"
        calls.append(Call("share_right", (x, v), inputs, Close(1e-6)))
        K, H, accuracy = int(rng.integers(128, 2000)), int(rng.integers(1, 9)), float(rng.uniform(0.7, 0.97))
        inputs = f"K = {K}, H = {H}, accuracy {accuracy:.3f}"
        calls.append(Call("predicted_pairs", (K, H, accuracy), inputs, Within(1.05)))
    for off in (1.5e-5, 2e-3):                     # keys that are nearly opposite: answers are nearly 0, and not 0
        x = torch.tensor([[[1.0, 0.0], [-1.0, off]]], dtype=torch.float64)
        calls.append(Call("share_right", (x, torch.ones(2, 1, dtype=torch.float64)), "K = 2, H = 1, n = 2, keys nearly opposite", Close(1e-6)))
    large = 10**6, 16, float(rng.uniform(0.75, 0.95))  # too large for a prediction that draws samples
    inputs = f"K = {large[0]:,}, H = 16, accuracy {large[2]:.2f}"
    calls.append(Call("predicted_pairs", large, inputs, Within(1.05)))
    few, *many = int(rng.integers(2, 9)), *(int(K) for K in rng.integers(8, 99, size=3))
    for K, H in ((1, 1), (1, few), (many[0], 1), (many[1], 4), (many[2], 3)):
        calls.append(Call("must_err", (K, H), f"K = {K}, H = {H}", Close(1e-9)))
    return calls


# --- q5: From which length on is a state the smaller memory? ---


def feature_width(K, order):
    """Features of the Taylor map to `order`, every product once."""
    return math.comb(K + order, order)


def break_even(K, V, order, state_bytes, cache_bytes):
    """The smallest number of tokens whose cache exceeds the state."""
    state = feature_width(K, order) * (V + 1) * state_bytes
    return state // ((K + V) * cache_bytes) + 1


@define_question(INFO["q5"], feature_width=feature_width, break_even=break_even)
def q5(rng):
    exact, calls = Close(1e-12), []
    few, high = int(rng.integers(3, 9)), int(rng.integers(8, 13))
    widths = ((5, 2), (16, 2), (few, 3), (7, 1), (4, 0), (64, 3), (few, 5), (180, 2), (1, 5), (2, 40), (64, 4))
    # where products of quotients, in one order or another, come out a hair below
    hairs = ((4, 45), (5, 23), (5, 3), (20, 5), (56, 3), (10, 6), (3, 13), (44, 5), (224, 3), (3, 41), (7, 18), (5, 19), (2, 32), (26, 6), (276, 3), (5, 50), (3, 52), (1, 54), (5, 61), (4, 62), (5, 9), (3, 55), (4, 55))
    for K, order in (*widths, *hairs, (int(rng.integers(3, 6)), high)):
        hint = "A quotient of floats may come out a hair below a whole number, and 64 bits may be too few on the way: Python's own whole numbers are divided exactly by //." if (K, order) in hairs else ""
        calls.append(Call("feature_width", (K, order), f"K = {K}, order {order}", exact, hint=hint))
    hint = "So large a factorial is a whole number and no float, and a recursion so deep ends at Python's limit."
    for K, order in ((2, 1000), (1, 1050), (1, 4897)):
        calls.append(Call("feature_width", (K, order), f"K = {K}, order {order}", exact, hint=hint))
    hint = "With K = 4,897 a recursion is too deep for Python, and products are more than float32 counts."
    calls.append(Call("feature_width", (4897, 2), "K = 4897, order 2", exact, hint=hint))
    sizes = [(64, 64, 2, 4, 2), (3, 5, 1, 2, 1)]  # of the second, the two are equal for a while
    for order in (0, 1, 2, 3, 4, 5, high):
        most = 40 if order < 6 else 6
        K, V, state, cache = (int(rng.integers(*span)) for span in ((2, most), (2, 80), (2, 9), (1, 5)))
        sizes.append((K, V, order, state, cache))
    for order in (0, 1, 2, 3, 4) * 5:  # small ones, where the two are often equal for a while
        K, V, state, cache = (int(n) for n in rng.integers(1, (7, 7, 9, 5)))
        calls.append(Call("feature_width", (K, order), f"K = {K}, order {order}", exact))
        sizes.append((K, int(rng.choice([1, V])), order, state, int(rng.choice([state, cache]))))
    # of equal size for a token; a width that is a product of quotients comes out a hair below
    sizes += [(9, 2, 5, 1, 1), (7, 1, 6, 1, 3), (5, 1, 6, 2, 1), (17, 2, 6, 1, 1), (55, 1, 3, 1, 1), (9, 4, 6, 2, 2)]
    sizes += [(3, 2, 3, 2, 3), (2, 14, 3, 8, 3)]
    # a byte less than a whole number of tokens; more bytes than float32 counts; quotients in other orders
    sizes += [(3, 2, 1, 2, 1), (4, 7, 2, 1, 1), (48, 546, 4, 6, 8), (2, 7, 5, 3, 1), (2, 2, 6, 1, 3), (2, 4, 4, 2, 1), (2, 13, 3, 3, 1), (9, 4, 4, 3, 1)]
    sizes.append((12, 64, 12, 8, 1))  # equal after many tokens; a few bytes less than that
    sizes += [(76, 2048, 4, 4, 3), (25, 1000, 6, 4, 1), (38, 116, 6, 4, 3), (49, 119, 5, 7, 5), (35, 109, 2, 8, 5)]
    # ratios of sizes first; division by a ratio
    sizes += [(1, 64, 4, 7, 5), (16, 1, 3, 7, 7), (9, 79, 2, 1, 1), (16, 98, 3, 2, 1), (1, 58, 4, 3, 1), (120, 1, 2, 1, 2), (70, 76, 3, 3, 2)]
    sizes += [(8, 6, 4, 2, 1), (7, 13, 4, 1, 1), (1, 10, 4, 3, 1), (2, 3, 1, 5, 1)]
    sizes += [(7, 14, 5, 7, 2), (32, 12, 4, 8, 3), (12, 14, 5, 2, 3), (17, 32, 4, 7, 1), (1, 2, 2, 7, 3), (1, 2, 0, 5, 1)]
    for K, V, order, state, cache in sizes:
        inputs = f"K = {K}, V = {V}, order {order}, {state} and {cache} bytes"
        calls.append(Call("break_even", (K, V, order, state, cache), inputs, exact))
    return calls


QUESTIONS = (q1, q2, q3, q4, q5,)
