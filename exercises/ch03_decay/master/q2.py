# %% [markdown] q2 measure, 4 points, 25 minutes, level 2
# ## The half-life of a layer, from outside
#
# You are given one head of a layer with a fixed decay, but not its decay: queries, keys and values of 40 to
# 400 tokens, and the outputs
#
# $$
# o_t = q_t S_t, \qquad S_t = \gamma\, S_{t-1} + k_t^\top v_t, \qquad S_0 = 0,
# $$
#
# rounded to bfloat16 (8 significant bits), as a model would have them. Measure the half-life of the state
# in tokens, to 3 %. It may be anything between 2 and 300 tokens, and values of any size. The first two tokens determine $\gamma$ on
# paper. Do they in practice?

# %% answer q2
def half_life(q, k, v, o):
    """Tokens until the state has lost half: q, k [T, K], v, o [T, V]."""
    # BEGIN SOLUTION
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
    # END SOLUTION

# %% [markdown] solution q2
# From $o_2 = \gamma\,(q_2\cdot k_1)\,v_1 + (q_2\cdot k_2)\,v_2$ one can solve for $\gamma$, with an error
# of the size of the rounding, some thousandths. At a half-life of 5 tokens, $\gamma = 0.87$, that is good
# enough. At 200 tokens $1-\gamma$ is 0.0035, so an error of 0.003 in $\gamma$ says nothing at all. What
# differs between two slow decays is seen in tokens that lie *far apart*, where $\gamma^{100}$ has turned
# the small difference into a large one. Fitting all outputs together uses them; the squared error as a
# function of the half-life has one valley here (plot it), and any search finds it. A model has the same
# difficulty when it learns a slow decay: it gets its gradient mostly from distant pairs.

# %% checks q2
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
