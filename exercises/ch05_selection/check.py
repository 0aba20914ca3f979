"""Checks of ``ch05_selection``, generated from master/*.py by ``make exercises``: edit those."""


import math

import torch


from linattn_exercises.calls import Call
from linattn_exercises.comparison import Close, Exactly, Within
from linattn_exercises.questions import QuestionInfo, define_question


VERSION = "ad0717d37efb"
INFO = {
    "q1": QuestionInfo(
        "ch05_selection", "q1", 'How loud can a token be?',
        "derive", points=4, minutes=25, level=2,
    ),
    "q2": QuestionInfo(
        "ch05_selection", "q2", 'Online softmax is a scan',
        "implement", points=5, minutes=35, level=3,
    ),
    "q3": QuestionInfo(
        "ch05_selection", "q3", 'How large is a state, from outside?',
        "measure", points=4, minutes=30, level=3,
    ),
    "q4": QuestionInfo(
        "ch05_selection", "q4", 'The triangular system with a decay',
        "implement", points=5, minutes=40, level=3,
    ),
    "q5": QuestionInfo(
        "ch05_selection", "q5", 'Four faults of a delta rule',
        "diagnose", points=4, minutes=25, level=2,
    ),
}


# --- q1: How loud can a token be? ---


def step_for(keep, a):
    """The step with which the state keeps this share."""
    return -math.log(keep) / a


def largest_state(a, low, high, hold):
    """The supremum of |S_t|: any inputs, any steps in [low, high]."""
    if hold == "exact":
        return 1 / a
    return high / -math.expm1(-a * high)


@define_question(INFO["q1"], step_for=step_for, largest_state=largest_state)
def q1(rng):
    exact = Close(1e-9)
    calls = []
    shares = [(0.5, 1.0), (0.01, 4.0), (0.9, 0.5), (1e-6, 1e-3), (0.01, 2.0), (1e-30, 3.0), (0.9997, 3.0), (1e-6, 1.4e-5)]
    shares += [(1 - float(rng.uniform(2e-5, 6e-5)), 1e-3), (1 - 1e-6, 1e-6), (1 - 1e-10, 1e-6), (1 - 2**-44, 1e-6), (1e-300, 3.0)]
    shares += [(1 - 1e-12, float(rng.uniform(8, 12))), (0.99999, 1.01e-11), (0.5, 999.0), (1 - 2e-7, float(rng.uniform(900, 999)))]
    shares += [(1 - off, float(rng.uniform(1, 9))) for off in (5e-7, 9e-8, 9e-5)]  # a series ends too early
    shares += [(float(10 ** -(10 ** rng.uniform(-3, 1.4))), float(10 ** rng.uniform(-3, 2))) for _ in range(30)]
    for keep, a in (*shares, (float(rng.uniform(0.999, 0.9999)), int(rng.integers(2, 9)))):
        calls.append(Call("step_for", (keep, a), f"keep = {keep:.3g}, a = {a:.3g}", Within(1 + max(1e-9, 2e-16 / (1 - keep)))))  # a step may be tiny
    near = 1 - 99 * 2**-53                           # 1.1e-14 below 1: 1 / keep is off by 1 %, and a bisection by half of that
    calls.append(Call("step_for", (near, 1.01e-11), "keep = 1 - 1.1e-14, a = 1.01e-11", Within(1.007)))
    limits = [(1.0, 0.1, 3.0), (0.5, 0.2, 1.0), (16.0, 0.01, 0.1), (2.0, 0.7, 0.7), (0.01, 0.01, 0.1), (1e-4, 0.01, 0.1), (3.0, 0.5, 233.0), (2, 1, 3), (1e-4, 1e-3, 5e-3), (1.0, 1e-4, 8e-4), (0.5, 0.01, 0.14), (3.0, 0.5, 6.69)]
    for _ in range(30):
        a = float(10 ** rng.uniform(-3, 2))
        high = float(10 ** rng.uniform(-5, 2.84)) / a
        limits.append((a, high * float(rng.choice((1.0, rng.uniform(0.001, 1.0)))), high))
    limits += [(1.01e-11, 0.1, 1e3), (1.01e-11, 0.1, 300.0), (990.0, 1e-6, 0.7)]
    for a, low, high in limits:
        for hold in ("exact", "euler"):
            inputs = f'a = {a:.3g}, steps from {low:.3g} to {high:.3g}, "{hold}"'
            calls.append(Call("largest_state", (a, low, high, hold), inputs, exact))
    return calls


# --- q2: Online softmax is a scan ---


def single(x, v, g):
    """The element (g, m, d, u) of a token: numbers x, g and v [V]."""
    seen = (x > -torch.inf).to(v.dtype)
    return g, x, seen, seen * v


def compose(first, then):
    """The element of two stretches, one after the other."""
    g1, m1, d1, u1 = first
    g2, m2, d2, u2 = then
    m1 = m1 + g2                           # the first fades
    m = torch.maximum(m1, m2)
    at = torch.where(m > -torch.inf, m, torch.zeros_like(m))
    a, b = (m1 - at).exp(), (m2 - at).exp()
    return g1 + g2, m, a * d1 + b * d2, a * u1 + b * u2


def identity(V):
    """The element of no tokens, for values [V], float64."""
    zero = torch.zeros((), dtype=torch.float64)
    return zero, zero - torch.inf, zero, torch.zeros(V, dtype=torch.float64)


def read(element):
    """The output [V] of a stretch, zeros if it has nothing to be seen."""
    _, _, d, u = element
    return u / d.clamp(min=1)              # d is 0, or at least 1


def prefixes(x, v, g):
    """All outputs [T, V] of a row: x [T], v [T, V], g [T]."""
    def scan(items, neutral):          # all prefixes of a list, by a tree
        levels = [items]
        while len(levels[-1]) > 1:             # up: compose neighbours
            padded = levels[-1] + [neutral] * (len(levels[-1]) % 2)
            levels[-1] = padded
            pairs = zip(padded[::2], padded[1::2])
            levels.append([compose(*pair) for pair in pairs])
        before = [neutral]                     # down: all to the left
        for level in reversed(levels[:-1]):
            before = [x for left, first in zip(before, level[::2])
                      for x in (left, compose(left, first))]
        return [compose(left, x) for left, x in zip(before, items)]

    items = [single(*token) for token in zip(x, v, g)]
    whole = scan(items, identity(v.shape[1]))
    return torch.stack([read(element) for element in whole])


def _stretch(rng, n, at=0.0, gate=-0.3, V=3):
    """The element of n tokens with scores near `at`, from sums over all of them."""
    x = at + 2 * torch.from_numpy(rng.normal(size=n))
    g = gate * torch.from_numpy(rng.uniform(size=n))
    v = torch.from_numpy(rng.normal(size=(n, V)))
    faded = x + g.sum() - g.cumsum(0)
    w = (faded - faded.max()).exp()
    return g.sum(), faded.max(), w.sum(), w @ v


def _tokens(rng, n, V):
    """Tokens x [n], v [n, V] and g [n] of all kinds: scores of 0, equal, far apart or hidden, values of zeros, gates
    open, low or closed."""
    x = rng.choice((0, 0, 1, -3000, 3000)) + rng.choice((0, 2, 800)) * rng.normal(size=n)
    v = rng.normal(size=(n, V)) * (rng.uniform(size=(n, 1)) < 0.7)
    g = -rng.choice((0, 0.5, 5000)) * rng.uniform(size=n)
    for one in (x, g):
        one[rng.uniform(size=n) < rng.choice((0, 0, 0.3, 0.9))] = -math.inf
    return tuple(map(torch.from_numpy, (x, v, g)))


def _element(x, v, g):
    """The element of tokens, from sums over all of them."""
    faded = torch.stack([score + g[j + 1 :].sum() for j, score in enumerate(x)])
    w = (faded - faded.max().clamp(min=-1e9)).exp()
    return g.sum(), faded.max(), w.sum(), w @ v


@define_question(
    INFO["q2"], single=single, compose=compose, identity=identity, read=read, prefixes=prefixes
)
def q2(rng):
    def draw(*shape):
        return torch.from_numpy(rng.normal(size=shape))

    def number(x):
        return torch.tensor(x, dtype=torch.float64)

    tight, calls = Close(1e-9), []
    for score, log_gate, inputs in (
        (0.7, -0.4, "x = 0.7, g = -0.4"),
        (0.0, -0.4, "x = 0, g = -0.4"),
        (-900.0, -3.0, "a score of -900"),
        (-9500.0, -0.4, "a score of -9500"),
        (-math.inf, -0.4, "a hidden token, g = -0.4"),
        (0.3, -math.inf, "a closed gate, x = 0.3"),
        (-math.inf, -math.inf, "a hidden token with a closed gate"),
    ):
        calls.append(Call("single", (number(score), draw(3), number(log_gate)), inputs, tight))
    zeros = torch.zeros(3, dtype=torch.float64)
    calls.append(Call("single", (number(0.0), zeros, number(-0.4)), "x = 0 and a value of zeros", tight))
    nothing = number(0.0), number(-math.inf), number(0.0), zeros
    hidden = number(-0.8), number(-math.inf), number(0.0), zeros
    lowered = number(-20_000.0), *hidden[1:]
    below = number(-1e10), *hidden[1:]
    far_below = number(-9e10), number(-9e10 - 3000), *_stretch(rng, 4)[2:]
    closed = number(-math.inf), number(1.5), number(1.0), draw(3)
    both = number(-math.inf), number(-math.inf), number(0.0), zeros
    mute = *_stretch(rng, 4)[:3], zeros
    for one, two, inputs in (
        (mute, _stretch(rng, 3), "4 tokens whose values add up to 0, then 3"),
        (_stretch(rng, 3), mute, "3 tokens, then 4 whose values add up to 0"),
        (_stretch(rng, 5), _stretch(rng, 3, 1.0), "5 and 3 tokens"),
        (_stretch(rng, 3, 4.0), _stretch(rng, 4, -2.0), "the larger scores first"),
        (_stretch(rng, 3, -400.0), _stretch(rng, 4, 400.0), "scores 800 apart, the larger last"),
        (_stretch(rng, 3, 400.0), _stretch(rng, 4, -400.0), "scores 800 apart, the larger first"),
        (_stretch(rng, 2, 900.0, -0.1), _stretch(rng, 30, 0.0, -60.0), "30 gates, which lower scores near 900 by about as much"),
        (nothing, _stretch(rng, 4), "no tokens, then 4"),
        (_stretch(rng, 4), nothing, "4 tokens, then none"),
        (_stretch(rng, 4, -3000.0), hidden, "scores near -3000, then a hidden token"),
        (hidden, _stretch(rng, 4, 3000.0), "a hidden token, then scores near 3000"),
        ((*(x - 1e6 for x in _stretch(rng, 4)[:2]), *_stretch(rng, 4)[2:]), hidden, "4 tokens that a gate has lowered to -1,000,000, then a hidden one"),
        (_stretch(rng, 4), lowered, "4 tokens, then a hidden one with a gate of -20,000"),
        (_stretch(rng, 4), below, "4 tokens, then a hidden one with a gate of -1e10"),
        (far_below, below, "4 tokens that gates have lowered to -9e10, then a hidden one with a gate of -1e10"),
        (hidden, hidden, "two hidden tokens"),
        (nothing, nothing, "no tokens, twice"),
        (_stretch(rng, 4), closed, "4 tokens, then one with a closed gate"),
        (hidden, closed, "a hidden token, then one with a closed gate"),
        (closed, _stretch(rng, 4), "a token with a closed gate, then 4"),
        (closed, hidden, "a token with a closed gate, then a hidden one"),
        (closed, (closed[0], number(0.4), closed[2], draw(3)), "two tokens with closed gates"),
        (_stretch(rng, 4), both, "4 tokens, then a hidden one with a closed gate"),
        (both, _stretch(rng, 4), "a hidden token with a closed gate, then 4"),
    ):
        # where the second was lowered that far, logarithms of absolute sums have but few digits left
        calls.append(Call("compose", (one, two), inputs, Close(1e-5) if two is below else tight))
    alone = number(-0.3), number(0.0), number(1.0), draw(3)
    for gap in (21, 28, 36):
        million = number(0.0), number(-gap), number(1e6), 1e6 * draw(3)
        for pair, inputs in (((alone, million), "1 and 1,000,000"), ((million, alone), "1,000,000 and 1")):
            inputs += f" tokens, scores {gap} apart"
            hint = "The smaller weights count too, if there are many: drop none."
            calls.append(Call("compose", pair, inputs, Close(1e-11), hint=hint))
    for n, then in ((10, -0.75), (2, 0.0)):  # in eighths, so that both are exactly equal
        m = int(rng.integers(-16, 16)) / 8
        one = number(-0.5), number(m - then), number(rng.uniform(1, n)), draw(3)
        two = number(then), number(m), number(rng.uniform(1, n)), draw(3)
        inputs = f"two stretches, largest scores equal after a gate of {then:g}"
        calls.append(Call("compose", (one, two), inputs, tight))
    m, more = rng.uniform(0.5, 3.0, size=2).tolist()
    for one, two, inputs in (  # what is said of the triples of exercise 1.5, with gates
        ((-0.5, m, 1.5, 1), (-0.75, m, 2.5, 1), "two stretches, largest scores equal before the gate"),
        ((0.0, m, 1.5, 0), (-0.75, -more, 2.5, 1), "a stretch without gates whose values are 0, then one with a gate"),
        ((-0.5, m, 1.5, 1), (0.0, m + more, 2.5, 0), "then a stretch without gates whose values are 0"),
        ((0.0, 0.0, 1.5, 1), (-0.75, m, 2.5, 1), "a stretch without gates, largest score 0, then one with a gate"),
        ((-0.5, m, 1.5, 1), (0.0, 0.0, 2.5, 1), "then a stretch without gates, largest score 0"),
    ):
        elements = tuple((*map(number, numbers), some * draw(3)) for *numbers, some in (one, two))
        calls.append(Call("compose", elements, inputs, tight))
    calls += [Call("identity", (V,), f"V = {V}", tight) for V in (1, int(rng.integers(2, 6)))]
    for element, inputs in (
        (_stretch(rng, 6), "6 tokens"),
        (_stretch(rng, 1), "one token"),
        ((number(-0.3), number(0.0), number(2.5), draw(3)), "largest score 0"),
        (_stretch(rng, 3, -2000.0), "scores near -2000"),
        (_stretch(rng, 3, 3000.0), "scores near 3000"),
        (hidden, "a hidden token"),
        ((number(-math.inf), number(-30_000.0), number(2.5), draw(3)), "a stretch with a closed gate, scores near -30,000"),
        ((number(-2e10), number(-2e10), number(2.5), draw(3)), "a stretch that two gates have lowered to -2e10"),
    ):
        calls.append(Call("read", (element,), inputs, Close(1e-12)))
    nobody: list[int] = []
    for T, at, gate, hide, close, inputs in (  # hide, close: whose score, whose gate is -inf
        (7, 1.0, 0.0, nobody, nobody, "7 tokens without gates"),
        (13, 2.0, -0.5, nobody, nobody, "13 tokens"),
        (1, 1.0, -0.5, nobody, nobody, "one token"),
        (24, 800.0, -1.0, nobody, nobody, "24 tokens, scores some hundreds apart"),
        (11, 1.0, -0.5, [0, 4, 5], [3, 7, 8, 10], "11 tokens, the first and two more hidden, four gates closed"),
        (9, 1.0, -4000.0, [*range(1, 9)], nobody, "9 tokens, all but the first hidden, gates of some thousands"),
        (8, 1.0, -100_000.0, [5, 6, 7], nobody, "8 tokens, the last three hidden, gates of some ten thousands"),
        (8, 1.0, -1e10, [5, 6, 7], nobody, "8 tokens, the last three hidden, gates near -1e10"),
        (6, 1.0, -0.5, nobody, [0], "6 tokens, the first gate closed"),
        (4, 1.0, -0.5, [*range(4)], nobody, "4 hidden tokens"),
        (7, 1.0, -0.5, [3, 4], [3], "7 tokens, the fourth hidden with a closed gate, the fifth hidden"),
        (6, 0.0, 0.0, nobody, nobody, "6 tokens with equal scores, without gates"),
        (5, 2.0, -0.5, nobody, nobody, "5 tokens, scores near -3000"),
    ):
        x, v, g = at * draw(T), draw(T, 1 + T % 3), gate * torch.from_numpy(rng.uniform(size=T))
        if T == 5:
            x -= 3000.0  # a maximum that starts at 0 is one that no token has
        x[hide], g[close] = -math.inf, -math.inf
        # a small number in a denominator shows
        calls.append(Call("prefixes", (x, v, g), inputs, Close(1e-5) if gate == -1e10 else Close(1e-12) if T == 13 or at == 0 else tight))
    x, v, g = draw(11) - 3000, draw(11, 2), torch.full((11,), -1e10, dtype=torch.float64)
    x[1:], g[0] = -math.inf, 0.0
    calls.append(Call("prefixes", (x, v, g), "11 tokens, all but the first hidden, gates of -1e10", Close(1e-5)))
    for low in (-1e9, -1e10):  # beside which sums of all gates have no digits left for the others
        x, v, g = draw(8), draw(8, 2), -torch.from_numpy(rng.uniform(size=8))
        g[int(rng.integers(1, 4))] = low
        calls.append(Call("prefixes", (x, v, g), f"8 tokens, one gate of {low:g}", tight))
    x, v, g = draw(70), draw(70, 2), -0.01 * torch.from_numpy(rng.uniform(size=70))
    calls.append(Call("prefixes", (x, v, g), "70 tokens, weak gates", tight))
    for _ in range(16):  # all that the text allows, together
        V, *sizes = (int(n) for n in rng.integers(1, (5, 5, 5, 12)))
        x, v, g = _tokens(rng, 1, V)
        calls.append(Call("single", (x[0], v[0], g[0]), f"x = {x.item():.5g}, g = {g.item():.5g}", tight))
        one, two = (_element(*_tokens(rng, n, V)) for n in sizes[:2])
        calls.append(Call("compose", (one, two), "{} and {} tokens of all kinds".format(*sizes), tight))
        calls.append(Call("read", (one,), f"{sizes[0]} tokens of all kinds", tight))
        calls.append(Call("prefixes", _tokens(rng, sizes[2], V), f"{sizes[2]} tokens of all kinds", tight))
    for x in (-math.inf, 0.0):
        token = torch.full((1,), x, dtype=torch.float64), draw(1, 2), draw(1).abs().neg()
        calls.append(Call("prefixes", token, f"one token, x = {x:g}", tight))
    return calls


# --- q3: How large is a state, from outside? ---


def state_size(M):
    """The numbers that a recurrence with this table [T, T] must hand on."""
    least = 1e-4 * M.abs().max()
    blocks = [M[t:, :t] for t in range(1, len(M))]
    sizes = [(torch.linalg.svdvals(x) > least).sum().item() for x in blocks]
    return max(sizes, default=0)


def least_error(M, n):
    """The error that a state of n numbers cannot avoid."""
    blocks = [M[t:, :t] for t in range(1, len(M))]
    values = [torch.linalg.svdvals(x) for x in blocks]
    return max((x[n].item() for x in values if len(x) > n), default=0.0)


def _gated(rng, T, K, reset=None, erase=False):
    """The table of linear attention with a gate for each channel, or of the delta rule."""
    q, k = (torch.from_numpy(rng.normal(size=(T, K))) for _ in range(2))
    k = k / k.norm(dim=1, keepdim=True)
    gates = torch.from_numpy(rng.uniform(0.85, 1.0, size=(T, K)))
    if reset is not None:
        gates[reset] = 0.0
    S, rows = torch.zeros(K, T, dtype=torch.float64), []  # what the state has of each input
    for t in range(T):
        S = gates[t][:, None] * S
        if erase:
            S = S - torch.outer(k[t], k[t] @ S)
        S[:, t] += k[t]
        rows.append(q[t] @ S)
    return torch.stack(rows)


def _filter(rng, T, taps):
    """The table of a convolution, whose first tap is a skip."""
    age = torch.arange(T)[:, None] - torch.arange(T)
    return taps[age.clamp(0, len(taps) - 1)] * ((age >= 0) & (age < len(taps)))


def _measure(rng, make, size, low=0.0, high=4.0, errors=(-1.0, 1.0)):
    """A table whose singular values are far from the threshold, scaled by 10^low to 10^high, with errors."""
    for _ in range(200):
        M = make()
        M = M / M.abs().max()
        values = [torch.linalg.svdvals(M[t:, :t]) for t in range(1, len(M))]
        if max((int((x > 1.01e-3).sum()) for x in values), default=0) == size:
            break
    else:
        raise RuntimeError(f"no table shows a state of {size}")
    M = 10 ** float(rng.uniform(low, high)) * M
    error = torch.from_numpy(rng.uniform(*errors, size=M.shape)).tril()
    return M + 1e-6 * M.abs().max() * error


@define_question(INFO["q3"], state_size=state_size, least_error=least_error)
def q3(rng):
    def softmax(T):
        x = torch.from_numpy(3 * rng.normal(size=(T, T)))
        return x.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf).softmax(1)

    def rotating(T):  # a complex pair and a real number, read together
        turn, age = rng.uniform(0.8, 2.0), torch.arange(T, dtype=torch.float64)
        taps = 0.97**age * (turn * age + rng.uniform(0, 3)).cos() + 0.9**age
        taps[0] = 3.0
        return _filter(rng, T, taps)

    def two_parts(first, second):
        M = _gated(rng, 24, max(first, second), 12)
        if first < second:
            M[:12, :12] = _gated(rng, 12, first)
        else:
            M[12:, 12:] = _gated(rng, 12, second)
        return M

    def briefly(size):  # 8 tokens in the middle, between closed gates, hand on more than the others
        return torch.block_diag(_gated(rng, 8, 2), _gated(rng, 8, size), _gated(rng, 14, 2))

    def early():  # only its first eighth hands on so much
        return torch.block_diag(_gated(rng, 8, 4), _gated(rng, 22, 2))

    def late():  # only the place before the last two tokens, an odd one, hands on so much
        return torch.block_diag(_gated(rng, 27, 1), _gated(rng, 4, 2))

    def neighbours(at):  # one token, and no other, reads what the one before it wrote
        M = torch.from_numpy(rng.uniform(1, 2, size=9)).diag()
        M[at, at - 1] = float(rng.uniform(1, 2))
        return M

    def silent():  # with nothing on the diagonal, in the first column and in the last row
        M = _gated(rng, 20, 3).tril(-1)
        M[:, 0], M[-1] = 0.0, 0.0
        return M

    def window(taps):
        return _filter(rng, 20, torch.from_numpy(rng.uniform(0.5, 1.0, size=taps)))

    def faint(T, low, high):  # one steady channel, and a second whose part is hardly above what counts
        near = 1 + 0.1 * torch.from_numpy(rng.uniform(-1, 1, size=(4, T)))
        near[2:, ::2] *= -1
        strong, weak = torch.outer(near[0], near[1]), 1e-4 * torch.outer(near[2], near[3])
        second = max(torch.linalg.svdvals((strong + weak)[t:, :t])[1].item() for t in range(2, T - 1))
        part = float(rng.uniform(low, high)) * strong.tril().max() / second
        return (strong + part * weak).tril()

    def loud(T):  # one entry, which no state is needed for, is by far the largest
        M, at = _gated(rng, T, 2), draw(0, T - 1)
        M = M / M.abs().max()
        M[at, at] = 100.0
        return M

    def apart():  # four tokens write, and far behind each of four others reads all of that
        M = torch.from_numpy(rng.uniform(1, 2, size=100)).diag()
        M[67:98:10, :31:10] = torch.from_numpy(rng.normal(size=(4, 4)))
        return M

    def offside(mirrored):  # what is handed on lies in no square that has its corner on the diagonal
        M = torch.from_numpy(rng.uniform(1, 2, size=40)).diag()
        M[[6, 9, 13, 19], [0, 1, 2, 3]] = torch.from_numpy(rng.uniform(1, 2, size=4))
        return M.flip(0, 1).T if mirrored else M

    def again():  # three are handed on, then for many tokens nothing, then five
        M = torch.from_numpy(rng.uniform(1, 2, size=100)).diag()
        M[[6, 10, 14], [0, 1, 2]] = 1.0
        M[range(75, 80), range(65, 70)] = torch.from_numpy(rng.uniform(1, 2, size=5))
        return M

    def bridged(mirrored):  # two are read far away, and three others next to one end
        M = torch.from_numpy(rng.uniform(1, 2, size=100)).diag()
        M[[97, 98, 8, 9, 10], [0, 1, 2, 3, 4]] = torch.from_numpy(rng.uniform(1, 2, size=5))
        return M.flip(0, 1).T if mirrored else M

    def all_at_once(n):  # n tokens write, and n others read, each another mixture of them
        M = torch.from_numpy(rng.uniform(1, 2, size=80)).diag()
        M[-n:, :n] = torch.linalg.qr(torch.from_numpy(rng.normal(size=(n, n))))[0]
        return M

    def draw(low, high):
        return int(rng.integers(low, high + 1))

    K, wide, erased, taps = draw(12, 15), draw(2, 4), draw(3, 5), draw(4, 6)
    small, large, brief, many = draw(1, 2), draw(3, 5), draw(3, 4), draw(24, 30)
    short, middle, long = (2 * draw(*ends) for ends in ((4, 5), (6, 8), (9, 10)))
    tables = (
        (lambda: _gated(rng, 24, wide), wide, f"24 tokens of linear attention, K = {wide}"),
        (lambda: _gated(rng, 44, K), K, f"44 tokens of linear attention, K = {K}"),
        (lambda: _gated(rng, 30, erased, erase=True), erased - 1, f"30 tokens of the delta rule, K = {erased}, strengths of 1"),
        (lambda: rotating(30), 3, "30 tokens of a filter of three rates, two of them a complex pair, and a skip"),
        *((lambda T=T: softmax(T), T // 2, f"{T} tokens of softmax attention") for T in (short, middle, long)),
        (lambda: two_parts(small, large), large, f"24 tokens, K = {small}, then {large} channels that start with a closed gate"),
        (lambda: two_parts(large, small), large, f"24 tokens, K = {large}, then {small} that start with a closed gate"),
        (lambda: briefly(brief), brief, f"30 tokens, K = 2, but {brief} channels for tokens 9 to 16, between closed gates"),
        (early, 4, "30 tokens, 4 channels for the first 8, then a closed gate and 2"),
        (late, 2, "31 tokens, one channel, then a closed gate and 2 for the last 4"),
        (lambda: -window(taps), taps - 1, f"20 tokens of a convolution over {taps}, no entry above 0"),
        (lambda: torch.from_numpy(rng.uniform(1, 2, size=(2, 2))).tril(), 1, "2 tokens"),
        (silent, 3, "20 tokens that do not reach their own outputs; the first writes and the last reads nothing"),
        (lambda: torch.tensor([[2.0]], dtype=torch.float64), 0, "a single token"),
        (lambda: torch.from_numpy(rng.uniform(1, 2, size=9)).diag(), 0, "9 tokens that do nothing to each other"),
        (lambda: neighbours(1), 1, "9 tokens, of which the second reads the first, no other any"),
        (lambda: neighbours(8), 1, "9 tokens, of which the last reads the one before it, no other any"),
        (apart, 4, "100 tokens, four of which are read, each by four others far from it"),
        (lambda: offside(False), 4, "40 tokens, the first four of which are read, at different distances"),
        (lambda: offside(True), 4, "40 tokens, the last four of which read one of the others each"),
        (again, 5, "100 tokens, 3 of which are read, and 5 long after that"),
        (lambda: bridged(False), 5, "100 tokens, two of which are read far away, three nearer by"),
        (lambda: bridged(True), 5, "100 tokens, two of which read far back, three nearer by"),
        (lambda: all_at_once(many), many, f"80 tokens, {many} of which are read by {many} others, mixed"),
        (lambda: faint(12, 1.02e-3, 1.04e-3), 2, "12 tokens of two channels, one of them faint"),
        (lambda: faint(100, 1.02e-3, 1.04e-3), 2, "100 tokens of two channels, one of them faint"),
        (lambda: loud(100), 2, "100 tokens of two channels, one token loud to itself"),
    )
    calls = []
    for number, at in enumerate(rng.permutation(len(tables))):
        make, size, inputs = tables[at]
        scale = (-8.0, -5.0) if number % 2 else (0.0, 4.0)
        calls.append(Call("state_size", (_measure(rng, make, size, *scale),), inputs, Close(1e-9)))
    idle = _measure(rng, lambda: torch.from_numpy(rng.uniform(1, 2, size=19)).diag(), 0, errors=(0.97, 1.0))
    calls.append(Call("state_size", (idle,), "19 tokens that do nothing to each other, errors of one sign", Close(1e-9)))
    for entry in (2.3e-5, 5e-4):  # each entry by itself is next to nothing, and a block of them is not
        shared = float(rng.uniform(1, 1.04)) * entry * torch.ones(100, 100).double().tril(-1)
        M = _measure(rng, lambda: torch.eye(100).double() + shared, 1)
        calls.append(Call("state_size", (M,), f"100 tokens that do hardly anything to each other, {entry:g} each", Close(1e-9)))
    for number, at in enumerate(rng.permutation(len(tables) - 2)):  # of other tables: n is no hint at the size of one above
        make, size, inputs = tables[at]
        n = draw(0, max(size - 1, 0))
        scale, how = ((-8.0, -5.0), Within(1 + 1e-6)) if number % 2 and size else ((0.0, 4.0), Close(1e-5))
        calls.append(Call("least_error", (_measure(rng, make, size, *scale), n), f"{inputs}; n = {n}", how))
    for at in (0, *rng.permutation(len(tables) - 2)[:8]):  # so large that errors are seen, where n is no less than the size
        make, size, inputs = tables[at]
        M = _measure(rng, make, size, 4.0)
        for n in (size, size + draw(1, 3)):
            calls.append(Call("least_error", (M, n), f"{inputs}; n = {n}", Close(1e-3)))
    M = _measure(rng, lambda: _gated(rng, 30, wide), wide, -8.0, -7.0)
    calls.append(Call("least_error", (M, wide), f"30 tokens of linear attention, K = {wide}; n = {wide}", Within(1.001)))
    M = _measure(rng, lambda: _gated(rng, 30, wide), wide, 4.0)
    for n in (13, 14):  # no more than errors, and small ones of them
        calls.append(Call("least_error", (M, n), f"30 tokens of linear attention, K = {wide}; n = {n}", Close(1e-3)))
    for T, n in ((10, 4), (10, 5), (9, 4), (9, 5), (10, draw(6, 8))):  # no block has more than half of T
        calls.append(Call("least_error", (softmax(T), n), f"{T} tokens of softmax attention; n = {n}"))
    diagonal = torch.from_numpy(rng.uniform(1, 2, size=9)).diag()
    return [*calls, Call("least_error", (diagonal, 12), "9 tokens that do nothing to each other, n = 12")]


# --- q4: The triangular system with a decay ---


def chunk(q, k, v, beta, log_decay, S):
    """One chunk: q, k [C, K], v [C, V], beta, log_decay [C], S [K, V]
    -> outputs [C, V], the state after it [K, V]."""
    lam, b = log_decay.cumsum(0), beta[:, None]
    start = lam.exp()[:, None]                     # from the chunk's start
    end = (lam[-1] - lam).exp()[:, None]             # to its end
    decay = (lam[:, None] - lam).clamp(max=0).exp().tril()
    eye = torch.eye(len(k), dtype=k.dtype)
    system = eye + (b * decay * (k @ k.T)).tril(-1)
    wanted = b * (v - start * (k @ S))
    u = torch.linalg.solve_triangular(system, wanted, upper=False)
    o = start * (q @ S) + (decay * (q @ k.T)) @ u
    return o, start[-1] * S + (end * k).T @ u


@define_question(INFO["q4"], chunk=chunk)
def q4(rng):
    calls = []
    for C, K, V, strength, least, most, longest in (
        (6, 4, 3, 0.5, 0.1, 1.0, 1.0),
        (1, 3, 2, 0.5, 0.1, 1.0, 1.0),
        (6, 4, 1, 0.5, 0.1, 1.0, 1.0),
        (6, 1, 3, 0.5, 2.1, 3.0, 1.0),
        (9, 3, 5, 0.0, 0.1, 1.0, 1.0),
        (7, 3, 3, 0.2, 0.01, 0.1, 1.0),
        (16, 8, 4, 0.1, 0.1, 2.0, 1.0),
        (8, 4, 3, 0.3, 0.1, 1.0, 3.0),
        (64, 16, 5, 1.0, 0.1, 1.0, 1.0),
        (64, 4, 3, 0.01, 0.9, 1.0, 1.0),
        (70, 8, 6, 30.0, 0.1, 2.0, 1.0),
        (80, 4, 3, 0.0, 0.9, 1.0, 1.0),
        (150, 4, 3, 0.0, 0.9, 1.0, 1.0),
        (6, 4, 3, 0.5, 1e-4, 1.2e-4, 1.0),
        (130, 4, 3, 0.02, 0.1, 1.0, 1.0),
        (66, 5, 3, 30.0, 0.1, 1.0, 1.0),
        (400, 4, 3, 30.0, 0.1, 1.0, 1.0),
        (6, 4, 3, 4.0, 0.1, 1.0, 1.0),
    ):
        q, k = (torch.from_numpy(rng.normal(size=(C, K))) for _ in range(2))
        if C in (80, 150):
            k = 1 + 0.3 * k  # keys that are nearly alike: a series for the inverse loses all its digits
        k = k / k.norm(dim=1, keepdim=True)
        if longest > 1:
            lengths = rng.uniform(0.4, longest, size=(C, 1))
            lengths[0] = longest
            k = k * torch.from_numpy(lengths)
        v, S = (torch.from_numpy(rng.normal(size=(n, V))) for n in (C, K))
        beta = torch.from_numpy(rng.uniform(least, most, size=C))
        log_decay = -strength * torch.from_numpy(rng.uniform(size=C))
        if C == 66:
            log_decay[9:57] = -strength  # a long run of them
        if C == 400:
            log_decay[:] = -strength  # whose sums differ by more than 10,000
        inputs = f"C = {C}, K = {K}, strengths up to {most:g}, keys up to {longest:g} long, "
        inputs += f"log decays down to {-strength:g}" if strength else "no decay"
        calls.append(Call("chunk", (q, k, v, beta, log_decay, S), inputs, Close(1e-8)))
    q, k, v, S = (torch.from_numpy(rng.normal(size=size)) for size in ((14, 3), (14, 3), (14, 3), (3, 3)))
    for t, *zero in ((2, v), (4, k), (6, k, v), (8, q, k, v), (10, q), (12, q, v)):
        for x in zero:
            x[t] = 0.0  # the state decays all the same
    beta, log_decay = torch.from_numpy(rng.uniform((0.2, -1.0), (1.0, -0.2), size=(14, 2)).T.copy())
    log_decay[12] = -30.0
    inputs = "C = 14, K = 3, V = 3, some queries, keys and values are zeros"
    calls.append(Call("chunk", (q, k, v, beta, log_decay, S), inputs, Close(1e-8)))
    q, k, v, S = (torch.from_numpy(rng.normal(size=size)) for size in ((6, 3), (6, 3), (6, 2), (3, 2)))
    k = k / k.norm(dim=1, keepdim=True)
    beta, log_decay = torch.from_numpy(rng.uniform((0.2, -1.0), (1.0, -0.2), size=(6, 2)).T.copy())
    log_decay[0] = -30.0
    inputs = "C = 6, K = 3, V = 2, a large state that the first token forgets"
    calls.append(Call("chunk", (q, k, v, beta, log_decay, 1e6 * S), inputs, Close(1e-8)))
    for at in ((1,), (3,), (5,), (1, 2)):  # or a later one, when what the first ones have erased is as large
        log_decay = torch.from_numpy(rng.uniform(-1.0, -0.2, size=6))
        log_decay[list(at)] = -30.0
        inputs = f"C = 6, K = 3, V = 2, a large state that token {at[0] + 1} forgets"
        calls.append(Call("chunk", (q, k, v, beta, log_decay, 3e6 * S), inputs, Close(1e-8)))
    for n in range(12):  # all that the text allows, together
        C, K, V = (int(size) for size in rng.integers(1, (18, 6, 5)))
        V = K if n % 2 else V

        def some(share=0.4):  # of the tokens, or none of them
            return torch.from_numpy(rng.uniform(size=C) < share * rng.integers(0, 2))

        q, k, v, S = (torch.from_numpy(rng.normal(size=size)) for size in ((C, K), (C, K), (C, V), (K, V)))
        k = k / k.norm(dim=1, keepdim=True) * torch.from_numpy(rng.uniform(0.3, 1.5, size=(C, 1)))
        beta = torch.from_numpy(rng.uniform(0.01, rng.choice((0.1, 1.0, 2.0)), size=C))
        log_decay = -float(rng.choice((0.1, 1.0, 30.0))) * torch.from_numpy(rng.uniform(size=C))
        k[some()], beta[some()] = k[0].clone(), 1.0
        q[some()], k[some()], v[some()] = 0.0, 0.0, 0.0
        log_decay[some()], log_decay[some()] = 0.0, -30.0
        inputs = f"C = {C}, K = {K}, V = {V}, tokens of all kinds"
        calls.append(Call("chunk", (q, k, v, beta, log_decay, S * float(rng.integers(0, 3) > 0)), inputs, Close(1e-8)))
    return calls


# --- q5: Four faults of a delta rule ---


symptoms = {
    "first": [0.5, 0.75, 0.5, 0.75, 0.5, 0.75],
    "second": [0.5, 1.125, 0.562, 1.031, 0.516, 1.008],
    "third": [0.25, 0.5, 0.375, 0.5, 0.375, 0.5],
}


first = "D"
second = "A"
third = "C"


def outputs(fault, beta, log_decay):
    """Outputs [T] for beta and log_decay [T] and a fault, or "none"."""
    S, R, o = 0.0, 0.0, []             # R: what A takes for the state
    for b, g in zip(beta.tolist(), log_decay.tolist()):
        alpha = math.exp(g)
        R = alpha * R if fault == "A" else alpha * S
        erased = {"A": R, "B": -b * R, "C": b * S, "D": b * S}
        u = b - erased.get(fault, b * R)
        R = R + b * u
        S = alpha * (S + u) if fault == "C" else alpha * S + u
        o.append(S)
    return torch.tensor(o, dtype=beta.dtype)


@define_question(
    INFO["q5"],
    first=first,
    second=second,
    third=third,
    outputs=outputs,
    wrong_values={
        "first": {
            "A": "There the second output is above 1: too little is erased. Here it is 0.75.",
            "B": "There the second output is above 1: what the key recalls is added. Here it is 0.75.",
            "C": "There the first output is already too small: the token's own write has decayed. Here it is right.",
        },
        "second": {
            "B": "There what the key recalls is added instead of taken away: the second output is further off, and the last one 3.469.",
            "C": "There the first output is already too small. Here it is right.",
            "D": "There too much is erased, and the second output is below 1. Here it is above.",
        },
        "third": {
            "A": "There the first output is right: no system does anything to the first token of an empty state.",
            "B": "There the first output is right, and the second too large.",
            "D": "There the first output is right: an empty state has nothing to erase, before the decay or after.",
        },
    },
)
def q5(rng):
    calls = [Call(name, (), "", Exactly()) for name in ("first", "second", "third")]
    for fault in ("none", "A", "B", "C", "D"):
        for T, most, least in ((6, 1.0, -2.0), (int(rng.integers(18, 25)), 3.0, -0.1), (60, 1.0, -30.0)):
            beta = torch.from_numpy(rng.uniform(0.1, most, size=T))
            beta[1::3] = 1.0
            beta[2::6], beta[3::6] = float(rng.uniform(0.001, 0.05)), 0.9 * most
            log_decay = torch.from_numpy(rng.uniform(least, 0.0, size=T))
            if T == 60:
                log_decay[10:50] = least  # a long run of them
            inputs = f"fault {fault}, T = {T}, strengths up to {most:g}, log decays down to {least:g}"
            calls.append(Call("outputs", (fault, beta, log_decay), inputs, Close(1e-9)))
        beta = torch.from_numpy(rng.uniform(0.8, 1.5, size=40))  # all of a long text matters for each token
        log_decay = torch.from_numpy(rng.uniform(-0.02, 0.0, size=40))
        calls.append(Call("outputs", (fault, beta, log_decay), f"fault {fault}, T = 40, hardly any decay", Close(1e-9)))
        for T in (1, *(int(n) for n in rng.integers(2, 10, size=24))):  # strengths and gates of all kinds
            beta = torch.from_numpy(rng.uniform(0.01, 2.0, size=T))
            log_decay = torch.from_numpy(rng.uniform(rng.choice((-0.1, -2.0, -30.0)), 0.0, size=T))
            for x, same in ((beta, 1.0), (log_decay, 0.0), (log_decay, -30.0)):
                x[torch.from_numpy(rng.uniform(size=T) < rng.choice((0.0, 0.4, 0.9)))] = same
            calls.append(Call("outputs", (fault, beta, log_decay), f"fault {fault}, T = {T}", Close(1e-9)))
        for sizes, text in (([1.5e-8] * 6, "strengths near 1e-8"), ([1.5e-8, 50, 0.5, 1.5e-8, 50, 0.5], "strengths from 1e-8 to 50")):
            beta = torch.from_numpy(rng.permutation(sizes) * rng.uniform(0.7, 1, size=6))
            log_decay = torch.from_numpy(rng.uniform(-0.1, 0.0, size=6))
            calls.append(Call("outputs", (fault, beta, log_decay), f"fault {fault}, T = 6, {text}", Close(1e-9)))
        for least in (-30.0, *rng.uniform((-29.5, -28.0), (-28.0, -26.0)).tolist()):  # of so much even e^-30 is something
            beta = torch.from_numpy(rng.uniform(30.0, 50.0, size=9))
            log_decay = torch.from_numpy(rng.uniform(-0.1, 0.0, size=9))
            beta[0], beta[4], log_decay[4] = 50.0, 1e-8, least
            inputs = f"fault {fault}, T = 9, strengths up to 50, with a log decay of {least:.3g} among them"
            calls.append(Call("outputs", (fault, beta, log_decay), inputs, Close(1e-9)))
    return calls


QUESTIONS = (q1, q2, q3, q4, q5,)
