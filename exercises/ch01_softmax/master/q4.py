# %% [markdown] q4 implement, 5 points, 30 minutes, level 3
# ## Causal online softmax, over tiles
#
# The recursion of the chapter, for all queries of a head at once and with the causal mask: go over the keys
# in tiles of `tile` (the last may be shorter), and carry $m$, $d$ and $u$ for every query. Scores have the
# scale $1/\sqrt K$. There are $S$ keys and $T \le S$ queries, those of the last $T$ positions, as when a prompt is
# read in parts: query $i$ (from 0) sees the first $S - T + i + 1$ keys.
#
# Return two things: the output, and $\ell_t = \log \sum_{j\le t} e^{x_{tj}}$ for every query $t$, the
# *log-sum-exp*. It is the one number per query that [FlashAttention-2](https://arxiv.org/abs/2307.08691)
# keeps for its backward pass, in place of a row of weights.
#
# Scores may be some thousands, positive or negative, those of hidden keys too. The check counts what you do. With
# $n = \max(T, \mathtt{tile})\cdot\max(\mathtt{tile} + 1, K, V+1)$, these bounds hold for each call:
#
# - no tensor of floating-point numbers has more than $n$ entries, none of whole numbers more than $\max(n, 2S)$, none of
#   truth values more than $8n$;
# - at any time you hold at most $12n$ entries, eight truth values as one, and besides $2(n + S)$ whole numbers that are
#   positions; views of $q$, $k$ and $v$ are free;
# - 40 torch operations a tile, and 40 besides; slices and other views are free;
# - in each tile a *work* of $K + V + 24$ a score and $8(V + 4)$ a query. A matrix product's work is its
#   multiplications, that of any other operation the entries that it computes or adds up.
#
# So that it can count, the check keeps the values of all tensors and does each operation of torch for you, if it is an
# elementary one. Arithmetic, `exp`, `@`, `einsum`, `amax`, `where`, `cumsum` and their like are. A softmax or a
# log-sum-exp of torch's (`logaddexp` too) or of another package is not. You may ask whether a score is large, but get no lists and no arrays.

# %% answer q4
def online_softmax(q, k, v, tile):
    """q [T, K], k [S, K], v [S, V] -> output [T, V], log-sum-exp [T]."""
    # BEGIN SOLUTION
    (T, K), S = q.shape, len(k)
    m = torch.full((T, 1), -torch.inf, dtype=q.dtype)
    d = torch.zeros(T, 1, dtype=q.dtype)
    u = torch.zeros(T, v.shape[1], dtype=q.dtype)
    t = torch.arange(S - T, S)                       # positions of queries
    for now in torch.arange(S).split(tile):          # keys of a tile
        x = q @ k[now].T * K**-0.5                   # [T, tile]
        x = x.masked_fill(now > t[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d = shrink * d + w.sum(1, keepdim=True)
        u = shrink * u + w @ v[now]
        m = new
    return u / d, (m + d.log()).flatten()
    # END SOLUTION

# %% [markdown] solution q4
# Key 0 is visible to every query, so $m$ is finite after the first tile; from then on a tile that a query
# must not see has $x = -\infty$ throughout, leaves $m$ as it is, and adds zeros. (Kernels skip such tiles,
# which halves the work.) The log-sum-exp is $m + \log d$: the reference that was subtracted comes back.
# With it the weights of any tile can be computed again later, $p_{tj} = e^{x_{tj} - \ell_t}$, without a
# second pass for the denominator.

# %% checks q4
def _head(rng, T, S, K, V, size=1.0):
    q, k, v = (torch.from_numpy(rng.normal(size=shape)) for shape in ((T, K), (S, K), (S, V)))
    if abs(size) > 1.0:  # scores near `size`, apart by a few units
        q[:, 0], k[:, 0] = 1.0, size * K**0.5
    return q, k, v


@define_question(INFO["q4"], own_code=True, online_softmax=online_softmax)
def q4(rng):
    cases = []
    for T, S, K, V, tile, size in (
        (7, 7, 4, 3, 3, 1.0),
        (12, 12, 5, 2, 4, 1.0),
        (1, 1, 2, 2, 8, 1.0),
        (5, 5, 1, 1, 1, 1.0),
        (1, 6, 3, 2, 2, 1.0),
        (20, 20, 4, 3, 6, 9000.0),
        (20, 20, 4, 3, 6, -9000.0),
        (200, 200, 4, 3, 16, 1.0),
        (6, 11, 4, 3, 4, 1.0),
        (10, 300, 6, 1, 12, 1.0),
        (40, 300, 2, 1, 100, 1.0),
        (2, 100, 2, 1, 2, 1.0),
        (3, 5, 2, 2, 5, 1.0),  # all keys in one tile, some in the future
        (3, 5, 2, 2, 8, 1.0),
        (4, 4, 2, 3, 9, 1.0),
        (3, 9, 4, 3, 4, 1.0),  # the last tile is short, and hidden keys stand in two before it as well
        (9, 21, 4, 3, 5, 1.0),
    ):
        inputs = f"T = {T}, " + (f"S = {S}, " if S > T else "") + f"tiles of {tile}"
        inputs += f", scores near {size:.0f}" if abs(size) > 1 else ""
        cases.append((*_head(rng, T, S, K, V, size), tile, inputs))
    cases.append((*_two_futures(rng, 9, 1000.0), 4, "T = 9, tiles of 4, a hidden score near 1000"))
    q, k, v = _two_futures(rng, 9, 6000.0)
    k[[*range(7), 8], 0] -= 12_000.0
    cases.append((q, k, v, 4, "T = 9, tiles of 4, visible scores near -6000, a hidden one near 6000"))
    q, k, v = _head(rng, 9, 9, 4, 3)
    q[5], k[3] = 0.0, 0.0  # scores that are exactly 0, visible ones and hidden ones
    cases.append((q, k, v, 4, "T = 9, tiles of 4, a query and a key of zeros"))
    cases.append((*_far_apart(rng, 12, 20), 4, "T = 12, S = 20, tiles of 4, scores up to 3200 apart"))
    for at in (0, 1580):  # far above the scores of the others, which are many, before them or after
        q, k, v = _head(rng, 4, 1600, 4, 3)
        q[:, 0], k[:, 0] = 2.0, 0.0
        k[at, 0] = ahead = float(rng.uniform(21, 23))
        cases.append((q, k, v, 48, f"T = 4, S = 1600, tiles of 48, key {at + 1} some {ahead:.0f} above all others"))
    q, k, v = _head(rng, 4, 1600, 4, 3)
    k *= 0.1  # no tile has one that comes nearer
    q[:, 0], k[:, 0] = 2.0, 0.0
    v[1:], v[0] = v[1:] + 1.0, -1.0  # the others differ from the loud one, so what is left of them is seen
    k[0, 0] = ahead = float(rng.uniform(24, 25))
    cases.append((q, k, v, 48, f"T = 4, S = 1600, tiles of 48, key 1 some {ahead:.0f} above all others"))
    # Many keys and wide heads: too many scores to keep, too wide to compute twice; features have no meaning alone.
    q, k, v = _far_apart(rng, 60, 1600, 64, 2)
    q[:, 1], k[:, 1] = 0.0, 1e5 * torch.from_numpy(rng.choice([-1.0, 1.0], size=1600))
    turn = torch.linalg.qr(torch.from_numpy(rng.normal(size=(64, 64)))).Q
    inputs = "T = 60, S = 1600, tiles of 48, scores up to 3200 apart, larger entries of keys that cancel"
    cases.append((q @ turn, k @ turn, v, 48, inputs))
    q, k, v = _head(rng, 12, 12, 2, 3)
    q[:], sign = 1.0, torch.ones(12, dtype=q.dtype)
    sign[::2] = -1.0
    k += 1000.0 * torch.stack([sign, -sign], 1)  # so q . k is small
    cases.append((q, k, v, 4, "T = 12, tiles of 4, entries of keys near 1000 that cancel in the score"))
    for T in (1, 1, 2, 3, 4, 5):  # any sizes; tiles that end where the mask begins, or after the last key
        more, K, V = (int(n) for n in rng.integers((0, 1, 1), (4, 5, 5)))
        S, tile = T + more, int(rng.choice([1, 2, 3, max(1, more), more + 1, T + more, T + more + 1]))
        cases.append((*_mixed(rng, T, S, K, V), tile, f"T = {T}, S = {S}, K = {K}, V = {V}, tiles of {tile}"))
    calls = []
    for q, k, v, tile, inputs in cases:
        (T, K), (S, V) = q.shape, v.shape
        entries, tiles = max(T, tile) * max(tile + 1, K, V + 1), -(-S // tile)
        work = T * tiles * (tile * (K + V + 24) + 8 * (V + 4))
        bounds = {"entries": entries, "integers": max(entries, 2 * S), "truths": 8 * entries}
        bounds |= {"held": 12 * entries, "positions": 2 * (entries + S)}
        bounds |= {"operations": 40 * tiles + 40, "work": work}
        calls.append(Call("online_softmax", (q, k, v, tile), inputs, Close(1e-8), bounds=bounds))
    return calls
