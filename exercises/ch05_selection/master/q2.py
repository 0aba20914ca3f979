# %% [markdown] q2 implement, 5 points, 35 minutes, level 3
# ## Online softmax is a scan
#
# One query has the score $x_j$ for token $j$, whose value is $v_j \in \mathbb R^V$. Chapter 1 read a row
# with a triple: the largest score $m$, the denominator $d$ and the numerator $u$. Now let the scores
# *fade*: each token has a log gate $g_t \le 0$, which lowers all scores of the tokens before it. After
# token $t$ the query gets
#
# $$
# o_t = \frac{\sum_{j\le t} e^{x_{jt}}\, v_j}{\sum_{j\le t} e^{x_{jt}}}, \qquad
# x_{jt} = x_j + g_{j+1} + \dots + g_t .
# $$
#
# Write it as a scan. An element stands for a stretch of tokens, $i$ to $t$, and consists of four things:
# $g = g_i + \dots + g_t$, the largest of its faded scores $m = \max_j x_{jt}$, $d = \sum_j e^{x_{jt} -
# m}$ and $u = \sum_j e^{x_{jt} - m}\, v_j$. Write
#
# 1. `single`, the element of one token;
# 2. `compose`, the element of two stretches of which the second follows the first;
# 3. `identity`, the element of no tokens, neutral on both sides;
# 4. `read`, the output of an element;
# 5. `prefixes`, all $o_t$ of a row, by these four and the `scan` that stands there. It goes up a tree and
#    down again, for any operator, and uses the neutral element on both sides. (The check sees outputs only.)
#
# A token may be hidden, $x_j = -\infty$; its gate still counts. A gate may be closed, $g_t = -\infty$:
# nothing before the token is seen any more. Where a stretch has nothing to be seen, $m = -\infty$, $d =
# 0$ and $u = 0$, and `read` gives zeros. Scores may be some thousands, and a gate that is not closed may be
# as low as $-10^{10}$, all of a row together as low as $-10^{11}$. (Where nothing is left to be seen but what a gate has lowered that far, 5 digits will do.) No result
# may hold a NaN. A token's $x$ and $g$ are tensors without dimensions, and its own $g$ does not lower its own score.

# %% answer q2
def single(x, v, g):
    """The element (g, m, d, u) of a token: numbers x, g and v [V]."""
    # BEGIN SOLUTION
    seen = (x > -torch.inf).to(v.dtype)
    return g, x, seen, seen * v
    # END SOLUTION


def compose(first, then):
    """The element of two stretches, one after the other."""
    # BEGIN SOLUTION
    g1, m1, d1, u1 = first
    g2, m2, d2, u2 = then
    m1 = m1 + g2                           # the first fades
    m = torch.maximum(m1, m2)
    at = torch.where(m > -torch.inf, m, torch.zeros_like(m))
    a, b = (m1 - at).exp(), (m2 - at).exp()
    return g1 + g2, m, a * d1 + b * d2, a * u1 + b * u2
    # END SOLUTION


def identity(V):
    """The element of no tokens, for values [V], float64."""
    # BEGIN SOLUTION
    zero = torch.zeros((), dtype=torch.float64)
    return zero, zero - torch.inf, zero, torch.zeros(V, dtype=torch.float64)
    # END SOLUTION


def read(element):
    """The output [V] of a stretch, zeros if it has nothing to be seen."""
    # BEGIN SOLUTION
    _, _, d, u = element
    return u / d.clamp(min=1)              # d is 0, or at least 1
    # END SOLUTION


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

    # BEGIN SOLUTION
    items = [single(*token) for token in zip(x, v, g)]
    whole = scan(items, identity(v.shape[1]))
    return torch.stack([read(element) for element in whole])
    # END SOLUTION

# %% [markdown] solution q2
# The pair $(a, b)$ of a recurrence says what a stretch does to the state on its left, $a$, and what it
# adds itself, $b$. Here $g$ is the logarithm of $a$, and the triple is $b$. The rule is that of the
# section, $b = a_2 b_1 + b_2$, in a number format of its own: $u$ and $d$ are to be multiplied by $e^m$,
# so multiplying by $a_2$ is adding $g_2$ to $m_1$, and for adding both are brought to the larger $m$. As
# $(u, d)$ is linear in what was written, *normalised* attention with a gate is a recurrence like any
# other, and its division comes after the scan.
#
# Without gates the order does not matter either, which is exercise 1.5. With them it does: only what
# stands to the *right* makes a stretch fade. The operator is associative and not commutative, and a scan
# asks for no more.
#
# Three things come of the infinities. Two stretches without anything to be seen must not be compared by
# $-\infty - (-\infty)$; any finite reference will do, as $e^{-\infty} = 0$. A hidden token is not the
# neutral element: it has a gate. And a closed gate needs nothing of its own, because $m_1 - \infty$ is a
# stretch that nobody sees; documents can stand one after the other in a row.
#
# Softmax attention with scores that fade like this is that of the Forgetting Transformer. A scan does not
# make it cheaper: each query has scores of its own and needs a scan of its own. Where $x_j$ does not
# depend on the query, one scan serves all tokens. RWKV-4 is of this kind, with a triple for each channel
# and a bonus for the newest token.

# %% checks q2
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
