"""Checks of ``ch03_decay``, generated from master/*.py by ``make exercises``: edit those."""


import math

import torch


from linattn_exercises.calls import Call
from linattn_exercises.comparison import Close, Exactly, Within
from linattn_exercises.questions import QuestionInfo, define_question


VERSION = "5f7767e485f5"
INFO = {
    "q1": QuestionInfo(
        "ch03_decay", "q1", 'From when on is it worth forgetting?',
        "derive", points=4, minutes=25, level=2,
    ),
    "q2": QuestionInfo(
        "ch03_decay", "q2", 'The half-life of a layer, from outside',
        "measure", points=4, minutes=25, level=2,
    ),
    "q3": QuestionInfo(
        "ch03_decay", "q3", 'The table of a vector gate, by matrix products',
        "implement", points=5, minutes=35, level=3,
    ),
    "q4": QuestionInfo(
        "ch03_decay", "q4", 'Bounds by design',
        "derive", points=3, minutes=20, level=2,
    ),
    "q5": QuestionInfo(
        "ch03_decay", "q5", 'A gate from its symptoms',
        "diagnose", points=4, minutes=30, level=2,
    ),
}


# --- q1: From when on is it worth forgetting? ---


def first_length(L):
    """The smallest number of pairs for which forgetting helps."""
    return 2 * L


def best_decay(L, T):
    """The best gamma for the oldest of L live pairs, after T pairs."""
    a = L - 1
    if T < 2 * L and L > 1:
        return 1.0
    if math.inf == T:
        return math.sqrt(1 - 1 / L)
    if a == 0:
        return 0.0
    low, high = 0.0, 1.0                      # of g, by bisection
    for _ in range(60):
        g = (low + high) / 2
        slope = sum((j - a) * g**j for j in range(T))
        low, high = (g, high) if slope < 0 else (low, g)
    return math.sqrt(low)


@define_question(INFO["q1"], first_length=first_length, best_decay=best_decay)
def q1(rng):
    exact = Close(1e-9)
    calls = [Call("first_length", (L,), f"L = {L}", exact) for L in (2, 3, int(rng.integers(5, 60)), 500)]
    L = int(rng.integers(5, 40))
    fixed = ((4, 11), (9, 200), (2, 5), (2, 20), (1, 30), (1, math.inf))
    many = int(rng.integers(50, 80))
    edge = int(rng.integers(130, 140))  # there the best is next to 1
    long = (int(rng.integers(125, 140)), 1500), (int(rng.integers(20_000, 30_000)), math.inf), (edge, 2 * edge)
    lengths = ((L, math.inf), (L, 2 * L), (L, 2 * L - 1), (L, L), (many, 3 * many), (L, 5 * L), (L, 10 * L))
    short = []
    for few in (1, 2, 3, int(rng.integers(4, 50))):  # texts that end near where forgetting helps
        ends = (few, few + 1, 2 * few - 2, 2 * few - 1, 2 * few, 2 * few + 1, int(rng.integers(2 * few, 20 * few)), 1500)
        short += [(few, T) for T in sorted({max(T, few, 2) for T in ends})]  # of one pair alone no decay is the best
    between = [(L, m * L + 17) for m, L in zip((3, 8), rng.integers(133, 143, 2).tolist())]  # long, and short of the limit
    # so many that no number holds a power of -L
    large = (int(rng.integers(330, 400)), 1439), (int(rng.integers(550, 620)), 1300), (int(rng.integers(720, 740)), 1490)
    nearly = int(rng.integers(700, 750))  # with 2 L pairs the best is nearly 1; with 10 L it is not yet that of no end
    more = (nearly, 2 * nearly), (19, 200), (48, 501), (1500, 1500), (int(rng.integers(950, 1400)), 1499)
    for L, T in (*lengths, *fixed, *long, *short, *between, *large, *more):
        calls.append(Call("best_decay", (L, T), f"L = {L}, T = {T}", Close(6e-7)))
    calls.append(Call("best_decay", (8, 100), "L = 8, T = 100", Close(5e-7)))
    return calls


# --- q2: The half-life of a layer, from outside ---


def half_life(q, k, v, o):
    """Tokens until the state has lost half: q, k [T, K], v, o [T, V]."""
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    scores = q @ k.T

    def error(life):                         # of all outputs together
        decay = (2.0 ** (-age / life)).tril()
        return (decay * scores @ v - o).square().sum().item()

    low, high = 0.0, 7.0                     # of log life
    for _ in range(40):                      # ternary search
        a, b = low + (high - low) / 3, high - (high - low) / 3
        better = error(math.exp(a)) < error(math.exp(b))
        low, high = (low, b) if better else (a, high)
    return math.exp(low)


def _outputs(q, k, v, life):
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    return (((2.0 ** (-age / life)).tril() * (q @ k.T)) @ v).bfloat16().double()


def _as_loud(rng, longer):
    """One number a token, where two half-lives give outputs of one length: the longer one or the shorter."""
    lives = torch.logspace(math.log10(2), math.log10(300), 160, dtype=torch.float64)
    age = torch.arange(40)[:, None] - torch.arange(40)
    decays = (2.0 ** (-age / lives[:, None, None])).tril()
    while True:
        q, k, v = (torch.from_numpy(rng.normal(size=(40, 1))) for _ in range(3))
        loud = (decays @ (k * v) * q).norm(dim=(1, 2))
        n = int(rng.integers(20, 140))
        alike = torch.diff((loud > loud[n]).int()).nonzero().flatten()  # where the length is passed; n is one of them
        apart = [int(m) - n for m in alike if abs(int(m) - n) > 8]
        if apart and all((m < 0) == longer for m in apart):
            return q, k, v, lives[n].item()


def _ask(draw, note=""):
    """Return a call on what `draw` gives, (q, k, v, life); drawn anew until rounding leaves the half-life within 1 %."""
    while True:
        q, k, v, life = draw()
        o = _outputs(q, k, v, life)
        if abs(half_life(q, k, v, o) / life - 1) < 0.01:
            inputs = f"T = {len(q)}, K = {q.shape[1]}, V = {v.shape[1]}, a half-life of {life:.1f}{note}"
            return Call("half_life", (q, k, v, o), inputs, Within(1.03))


@define_question(INFO["q2"], half_life=half_life)
def q2(rng):
    calls = []
    for T, K, V, life in (
        (100, 4, 6, float(rng.uniform(4, 6))),
        (151, 8, 4, float(rng.uniform(15, 40))),
        (300, 4, 2, float(rng.uniform(150, 280))),
        (40, 3, 3, 2.0),
        *((40, 1, 1, float(life)) for life in rng.uniform(2, 40, size=3)),
        *((60, 4, 4, float(life)) for life in rng.uniform((2.09, 2.35, 3.35), (2.12, 2.4, 3.4))),  # off a grid of quarters
        (120, 5, 5, float(rng.uniform(8, 15))),
        (200, 6, 6, float(rng.uniform(50, 120))),
        (400, 4, 4, 2.0),  # so short that 2^(age / life) of the future is no float32
        (400, 3, 2, 300.0),  # few numbers a token: the first tokens alone tell nothing
        (350, 4, 2, float(rng.uniform(200, 290))),
        (40, 4, 4, 300.0),  # far longer than the text
        (80, 3, 6, float(rng.uniform(150, 280))),
    ):

        def plain(T=T, K=K, V=V, life=life):
            q, k, v = (torch.from_numpy(rng.normal(size=(T, n))) for n in (K, K, V))
            return q, k, v * (1e-6 if T in (80, 151) else 1e3 if T == 120 else 1), life  # how loud a head is, is not said

        calls.append(_ask(plain))

    def any_head():  # also one number a token, and tokens that read or write nothing
        T, K, V = int(rng.choice([40, rng.integers(40, 150), 400])), *map(int, rng.choice([1, 2, 3, 8], 2))
        life = 2.0 * min(150, 1.2 * T) ** float(rng.uniform())
        q, k, v = (torch.from_numpy(rng.normal(size=(T, n))) for n in (K, K, V))
        for x in (q, k, v):
            x *= float(10 ** rng.uniform(-3, 3)) if rng.uniform() < 0.3 else 1
            # from the third on: known mistakes divide by the first two
            x[2:][torch.from_numpy(rng.uniform(size=T - 2) < 0.2)] *= float(rng.choice([0, 1, 1]))
        return q, k.abs() if rng.uniform() < 0.3 else k, v * float(10 ** rng.uniform(-6, 6)), life

    calls += [_ask(any_head) for _ in range(10)]

    for size in (1e-18, 1e-12, 1e18):  # an epsilon counts, or a square is no float32

        def of_size(size=size):
            q, k, v = (torch.from_numpy(rng.normal(size=(100, 4))) for _ in range(3))
            return q, k, size * v, float(rng.uniform(15, 30))

        calls.append(_ask(of_size, f"; values near {size:g}"))

    def in_part(silent):  # queries are 0 late in the text, early, or often; or the values of two channels cancel
        T = 400 if silent in ("long", "late") else 200
        q, k, v = (torch.from_numpy(rng.normal(size=(T, 4))) for _ in range(3))
        if silent == "late":
            q[60:] = 0.0
        if silent == "early":
            q[2:110] = 0.0  # known mistakes divide by what the first two read
        if silent == "long":
            q[2 : int(rng.integers(380, 386))] = 0.0
            return q, k, v, float(rng.uniform(90, 110))
        if isinstance(silent, int):
            q[silent::3] = 0.0
        if silent in ("often", "the other tokens"):
            q[2 + (silent != "often") :: 2] = 0.0
        if silent == "together":
            v[:, 1], v[:, 3] = -v[:, 0], -v[:, 2]
        return q, k, v, float(rng.uniform(40, 60))

    calls += [_ask(lambda silent=silent: in_part(silent), f"; silent {silent}") for silent in ("late", "early", "long", "often", "the other tokens", "together")]
    calls += [_ask(lambda at=at: in_part(at), f"; every third one silent, from token {at + 1} on") for at in (2, 3, 4)]
    for longer in (False, True) * 3:
        note = f"; a {'shorter' if longer else 'longer'} one is as loud"
        calls.append(_ask(lambda longer=longer: _as_loud(rng, longer), note))

    def first_is_loud():  # what is rounded off its output is more than all that another half-life changes
        q, k, v = (torch.from_numpy(rng.normal(size=(100, 4))) for _ in range(3))
        q[0] = 1e3 * k[0]
        return q, k, v, float(rng.uniform(30, 60))

    calls.append(_ask(first_is_loud, "; the first query is loud"))

    def silent():  # of all tokens the first; known mistakes divide by it, so this comes last
        q, k, v = (torch.from_numpy(rng.normal(size=(120, 3))) for _ in range(3))
        v[0], v[:, silenced] = 0.0, 0.0
        return q, k, v, float(rng.uniform(10, 40))

    for silenced in ([0], [1], [2], [0, 1], [1, 2], [0, 2]):
        calls.append(_ask(silent, f"; the first token and channels {silenced} are silent"))

    def in_two_channels():
        q, k, v = (torch.from_numpy(rng.normal(size=(120, n))) for n in (3, 3, 6))
        v[0], v[:, silenced] = 0.0, 0.0
        return q, k, v, float(rng.uniform(10, 40))

    for silenced in ([0, 1, 2, 3], [2, 3, 4, 5], [0, 1, 2, 3, 4], [1, 2, 3, 4, 5]):
        calls.append(_ask(in_two_channels, f"; the first token and channels {silenced} are silent"))

    def spoken(T, silent, *lives):  # a few outputs at the start, or all but these
        q, k, v = (torch.from_numpy(rng.normal(size=(T, n))) for n in (4, 4, 6))
        q[silent] = 0.0
        return q, k, v, float(rng.uniform(*lives))

    calls.append(_ask(lambda: spoken(60, slice(5), 10, 30), "; the first 5 queries are 0"))
    for T, heard, *lives in ((60, 5, 2, 4), (60, 3, 2, 3), (400, 20, 5, 15)):
        calls.append(_ask(lambda: spoken(T, slice(heard, None), *lives), f"; all but the first {heard} queries are 0"))

    def alone(queries):  # all the others are 0
        K, V = (1, 1) if queries == 1 else (4, 3)
        q, k, v = (torch.from_numpy(rng.normal(size=(60, n))) for n in (K, K, V))
        at = int(rng.integers(45, 55))
        q[:at], q[at + queries :] = 0.0, 0.0
        return q, *((k.abs(), v.abs()) if queries == 1 else (k, v)), float(rng.uniform(8, 16))

    calls += [_ask(lambda queries=queries: alone(queries), f"; all queries are 0 but {queries}") for queries in (1, 2)]

    def of_either_sign(shortest, longest):  # one output, which for the other of two half-lives is as large with the other sign
        q, k, v = torch.zeros(60, 1).double(), torch.ones(60, 1).double(), torch.zeros(60, 1).double()
        q[-1], v[-1], v[-21] = 1.0, (x := float(rng.normal())), -1.5 * x
        return q, k, v, float(rng.uniform(shortest, longest))

    for shortest, longest in ((14.9, 15.6), (165.0, 220.0)):
        calls.append(_ask(lambda: of_either_sign(shortest, longest), "; all queries are 0 but the last, and values but two"))
    return calls


# --- q3: The table of a vector gate, by matrix products ---


def whole(q, k, log_decay):                 # [C, K] three times
    lam = log_decay.cumsum(0)
    gap = (lam[:, None] - lam).clamp(max=0)   # [C, C, K]: too large
    return torch.einsum("ik,jk,ijk->ij", q, k, gap.exp()).tril()


def table(q, k, log_decay, part):
    """A [C, C], the same as `whole`."""
    lam, C = log_decay.cumsum(0), len(q)
    A = torch.zeros(C, C, dtype=q.dtype)
    for m in range(0, C, part):
        e = min(m + part, C)
        Q, own = q[m:e], lam[m:e]
        gap = (own[:, None] - own).clamp(max=0)        # [P, P, K]
        A[m:e, m:e] = (Q[:, None] * k[m:e] * gap.exp()).sum(-1).tril()
        if m:
            edge = lam[m - 1]                          # the boundary
            left = Q * (own - edge).exp()              # from it on
            right = k[:m] * (edge - lam[:m]).exp()       # up to it
            A[m:e, :m] = left @ right.T
    return A


LOUD = 27.5, 28.5, 30.5, 100.0  # as strong decays are met by a loud query


@define_question(INFO["q3"], own_code=True, table=table)
def q3(rng):
    calls = []
    short = []
    for _ in range(8):  # also one token more or less than a whole number of parts
        part = int(rng.integers(1, 12))
        C = max(1, int(rng.integers(1, 4)) * part + int(rng.choice([-1, 0, 1, 2])))
        short.append((C, int(rng.integers(1, 5)), part, float(rng.choice([1.0, 30.0, 1000.0]))))
    for C, K, part, strength in (
        (8, 3, 4, 0.5),
        (11, 4, 4, 0.5),
        (5, 3, 8, 0.5),
        (6, 2, 1, 0.5),
        (70, 24, 8, 30.0),
        (64, 40, 16, 0.01),
        (1, 3, 4, 0.5),
        (8, 1, 4, 0.5),
        (98, 4, 48, 1000.0),
        (101, 5, 40, 1000.0),
        (11, 3, 3, 0.5),
        (5, 2, 5, 0.5),
        (9, 3, 4, 0.5),
        (220, 8, 12, 1.0),
        *short,
        (98, 2, 96, 1000.0),
        *((7, 2, part, strength) for part in (3, 7) for strength in LOUD),
    ):
        q, k = (torch.from_numpy(rng.normal(size=(C, K))) for _ in range(2))
        log_decay = -strength * torch.from_numpy(rng.uniform(size=(C, K)))
        if part == 48:  # long parts that forget all, in some channels
            log_decay[:, 1::2] /= strength
            log_decay[:, ::2] = -strength
        if part == 40:  # few tokens forget all, and those after them hardly anything
            log_decay /= strength
            log_decay[2::5, ::2] = -strength
        if part == 96:  # all forget all, and no finite mask is enough
            log_decay[:] = -strength
        if strength in LOUD:  # a query so large that what little is left of the first key is seen
            q[-1], k[0], k[1:] = 1e6, 1.0, 0.0
            log_decay *= 0.1 / strength
            log_decay[int(rng.integers(1, 3)) if strength != 28.5 else 6] = -strength
        if C == 220:  # many parts, and channels that hardly forget
            log_decay[:, ::2] *= 1e-3
            log_decay[:, 0] = 0.0  # nor at all
        if (C, K, part, strength) in short:  # entries that forget nothing, or all, and tokens that read or write nothing
            for x, value in ((log_decay, 0.0), (log_decay, -1000.0), (q, 0.0), (k, 0.0)):
                if rng.uniform() < 0.4:
                    x[torch.from_numpy(rng.uniform(size=(C, K)) < 0.3)] = value
        inputs = f"C = {C}, K = {K}, parts of {part}, log decays down to {-strength:g}"
        n = -(-C // part)
        whole = n * part  # tokens, of which the last may be padding
        size = max(whole * whole, whole * K, part * part * K)
        most = {"entries": size, "integers": size, "truths": 8 * size}
        most["operations"] = 40 * n + 6 * C + 40
        if C >= 60:
            most["work"] = whole * whole * K + 10 * whole * part * K
        calls.append(Call("table", (q, k, log_decay, part), inputs, Close(1e-8), bounds=most))
    return calls


# --- q4: Bounds by design ---


import itertools
def shortest_half_life(logits, layer):
    """In tokens; logits is a list of L numbers, layer from 0."""
    if layer == 0:
        return 0.0
    x = torch.tensor(logits, dtype=torch.float64)
    kept = x[1 : layer + 1].logsumexp(0)
    rest = torch.cat([x[:1], x[layer + 1 :]]).logsumexp(0)
    # the bound is the sigmoid of kept - rest
    return math.log(2) / torch.logaddexp(rest - kept, 0 * kept).item()


def logits_for(half_lives):
    """L numbers of mean 0; half_lives[0] is 0, the others rise."""
    bounds = [0.0] + [2 ** (-1 / life) for life in half_lives[1:]]
    steps = [b - a for a, b in itertools.pairwise(bounds)]
    share = [-math.expm1(-math.log(2) / half_lives[-1]), *steps]
    logs = [math.log(x) for x in share]
    mean = sum(logs) / len(logs)
    return [x - mean for x in logs]


def _uneven_shares(rng, before_division):
    """Return logits whose shares of the softmax, added up before they are divided or after, are a hair less than 1."""
    while True:
        logits = [float(x) for x in rng.normal(size=int(rng.integers(3, 8)))]
        shares = torch.softmax(torch.tensor(logits, dtype=torch.float64), 0)
        sums = [(shares[0] + shares[1:].sum()).item(), sum(shares.tolist())]
        if before_division:
            first, *others = (math.exp(x - max(logits)) for x in logits)
            sums = [(first + sum(others)) / sum((first, *others))]
        if max(sums) < 1:
            return logits


@define_question(INFO["q4"], shortest_half_life=shortest_half_life, logits_for=logits_for)
def q4(rng):
    calls = []
    logits = [float(x) for x in rng.normal(size=6)]
    layers = [(logits, layer) for layer in (0, 1, 5, 2, 3, 4)]
    mixed = [0.5, -1.0, 2.0, 0.0, 1.0]  # in no order
    layers += [(mixed, layer) for layer in (1, 2, 3)] + [([0.0, 0.0, -3000.0, -3000.0, -3000.0], 1)]
    far = ([900.0, 901.0, 899.0], 2), ([-900.0, -901.0, -3900.0], 2)
    for given, layer in (*layers, ([0.0] * 24, 23), ([0.0, 0.0], 1), *far):
        inputs = f"{len(given)} layers, layer {layer}"
        calls.append(Call("shortest_half_life", (given, layer), inputs, Close(1e-9)))
    for before_division in (True, True, False, False):
        calls.append(Call("shortest_half_life", (_uneven_shares(rng, before_division), 0), "layer 0", Close(1e-9)))
    low, high = float(rng.uniform(-13.7, -13.0)), float(rng.uniform(12.3, 13.0))
    ends = (([0.0, low], 1, "near 0"), ([0.0, high, low, high], 3, "near 1"), ([0.0, 13.8], 1, "near 1"))
    for given, layer, where in ends:  # bounds that are about one part in a million from 0 or 1
        inputs = f"{len(given)} layers, layer {layer}, a bound {where}"
        calls.append(Call("shortest_half_life", (given, layer), inputs, Close(1e-8)))
    steps = [float(x) for x in rng.uniform(0.3, 8.0, size=5)]
    rising = [0.0, *(sum(steps[:n]) for n in range(1, 6))]
    for lives in (rising, [0.0, 1.0], [0.0, 0.5, 4.0, 32.0, 256.0]):
        calls.append(Call("logits_for", (lives,), f"{len(lives)} layers", Close(1e-9)))
    close = [0.0, 1.0, 1000.0, 1000.001]  # a share of 7e-10
    calls.append(Call("logits_for", (close,), "4 layers, two of nearly one half-life", Close(1e-6)))
    closer = [0.0, 1.0, 1000.0, 1000.0001]  # a share of 7e-11, of which six digits are left
    calls.append(Call("logits_for", (closer,), "4 layers, two of nearly one half-life", Close(1e-5)))
    closest = [0.0, 1.0, 1000.0, 1000.0 + float(rng.uniform(1.5e-6, 1.7e-6))]  # one of 1.1e-12, of which three are left
    calls.append(Call("logits_for", (closest,), "4 layers, two of nearly one half-life", Close(1e-3)))
    early = [0.0, 0.0503, 0.0503 + 4e-9, 1.0]  # one as small, near 0, where many more digits are left
    calls.append(Call("logits_for", (early,), "4 layers, two of nearly one half-life near 0", Close(1e-6)))
    many = [0.0, *(1.0 + m for m in range(99))]  # shares whose product is less than any number
    calls.append(Call("logits_for", (many,), "100 layers, half-lives 0 to 99", Close(1e-8)))
    spans = ((0.052, 0.06), (0.09, 0.11), (0.3, 2), (50, 500), (2e5, 5e5))  # of bounds from near 0 to near 1
    wide = [0.0, *(float(rng.uniform(*span)) for span in spans)]
    inputs = f"{len(wide)} layers, half-lives from {wide[1]:.2g} to {wide[-1]:,.0f}"
    calls.append(Call("logits_for", (wide,), inputs, Close(1e-8)))
    for _ in range(40):  # few layers or one, in any order, also with ties and far from 0
        given = rng.normal(size=int(rng.integers(1, 9))) * rng.choice([0, 1, 2]) + rng.choice([-1000, 0, 1000])
        given = [float(x) for x in (given.round() if rng.uniform() < 0.3 else given)]
        layer = int(rng.choice([0, len(given) - 1, rng.integers(len(given))]))
        calls.append(Call("shortest_half_life", (given, layer), f"{len(given)} layers, layer {layer}", Close(1e-9)))
        n = int(rng.integers(1, 8))  # half-lives from one part in a million to the other, no two too close
        lives = [0.0, *(math.exp(-2.98 + 16.42 * (m + float(rng.uniform(0.0, 0.9))) / n) for m in range(n))]
        calls.append(Call("logits_for", (lives,), f"{n + 1} layers, half-lives up to {lives[-1]:,.3g}", Close(1e-8)))
    return calls


# --- q5: A gate from its symptoms ---


symptoms = {
    "first": [1.0, 2.0, 2.368, 2.503, 2.553, 2.571, 2.578, 2.581],
    "second": [0.368, 0.503, 0.553, 0.571, 0.578, 0.581, 0.581, 0.582],
    "third": [1.0, 1.368, 1.503, 1.553, 2.553, 1.939, 1.713, 1.63],
}


first = "C"
second = "A"
third = "B"


def outputs(fault, log_decay, chunk):
    """Outputs [T] for log_decay [T] and a fault, "A" to "D", or "none"."""
    S, o = 0.0, []
    for t, g in enumerate(log_decay.tolist()):
        alpha = math.exp(2 * g if fault == "D" else g)
        if fault == "B" and t and t % chunk == 0:
            alpha = 1.0
        before = S
        S = alpha * (S + 1) if fault == "A" else alpha * S + 1
        o.append(before + 1 if fault == "C" else S)
    return torch.tensor(o, dtype=log_decay.dtype)


@define_question(
    INFO["q5"],
    first=first,
    second=second,
    third=third,
    outputs=outputs,
    wrong_values={
        "first": {
            "A": "There the very first output is too small: the token's own write has decayed. Here it is 1.",
            "B": "There the whole first chunk is right. Here the second token is wrong already.",
            "D": "There the past counts too little: outputs stay below the right ones.",
        },
        "second": {
            "B": "There the whole first chunk is right. Here the first token is wrong already.",
            "C": "There the first output is 1, as it should be: nothing is read before the first write.",
            "D": "There the first output is 1: no decay acts on a write that has just been made.",
        },
        "third": {
            "A": "There the first output is already wrong. Here the first four are right.",
            "C": "There the second output is 2: the past lacks a decay at every token, not only at an edge.",
            "D": "There the second output is wrong. Here the first four are right.",
        },
    },
)
def q5(rng):
    calls = [Call(name, (), "", Exactly()) for name in ("first", "second", "third")]
    for fault in ("none", "A", "B", "C", "D"):
        drawn = int(rng.integers(9, 14))
        sizes = [(8, 4, -2.0), (drawn, 3, -4.0), (60, 7, -100.0), (61, 7, -1000.0), (6, 1, -2.0), (5, 9, -2.0)]
        sizes += [(9, 8, -1.0), (10, 6, -1.0)]  # two equal parts would end elsewhere
        short = [(1, int(rng.integers(1, 4)), -2.0)]
        for T in map(int, rng.integers(2, 20, size=7)):  # also chunks of one token, or next to the length
            chunk = int(rng.choice([1, T - 1, T, T + 1, rng.integers(1, T)]))
            short.append((T, chunk, float(rng.choice([-0.1, -4, -1000]))))
        for T, chunk, least in (*sizes, (300, 11, -0.02), *short, (130, 16, -1000.0)):
            log_decay = torch.from_numpy(rng.uniform(least, 0.0, size=T))
            if (T, chunk, least) in short:  # some tokens forget nothing, others all
                log_decay[torch.from_numpy(rng.uniform(size=T) < rng.choice([0, 0.3]))] = 0.0
                log_decay[torch.from_numpy(rng.uniform(size=T) < rng.choice([0, 0.3]))] = -1000.0
            if T == 60:
                log_decay[5:55] = least  # powers overflow, from whatever token they count
            if T == 61:  # some tokens forget all, and those after them hardly anything
                log_decay /= -least
                log_decay[1::3] = least
            if T == 130:  # all forget all, and no finite mask is enough
                log_decay[:] = least
            if T == 300:
                log_decay[::2] = 0.0  # every second token forgets nothing
            inputs = f"fault {fault}, T = {T}, chunks of {chunk}, log decays down to {log_decay.min():.3g}"
            calls.append(Call("outputs", (fault, log_decay, chunk), inputs, Close(1e-9)))
    return calls


QUESTIONS = (q1, q2, q3, q4, q5,)
