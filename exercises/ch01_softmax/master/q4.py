# %% [markdown] q4 implement, 5 points, 30 minutes, level 3
# ## Causal online softmax, over tiles
#
# The recursion of the chapter, for all queries of a head at once and with the causal mask: go over the keys
# in tiles of `tile` (the last may be shorter), and carry $m$, $d$ and $u$ for every query. Scores have the
# scale $1/\sqrt K$.
#
# Return two things: the output, and $\ell_t = \log \sum_{j\le t} e^{x_{tj}}$ for every query $t$, the
# *log-sum-exp*. It is the one number per query that [FlashAttention-2](https://arxiv.org/abs/2307.08691)
# keeps for its backward pass, in place of a row of weights.
#
# Scores may be near $1000$ or $-1000$, those of hidden keys too. No tensor may have more entries than $T$
# times the largest of `tile`, $K$ and $V+1$, and 600 torch operations must do at $T = 200$ in tiles of 16. The
# check counts: it keeps the values of all tensors, masks too, and does for you each operation of torch that is
# elementary. Arithmetic, `exp`, `@`, `einsum`, `amax`, `where`, `cumsum`, slices and their like are, and count as
# one or two each. A softmax or a log-sum-exp of torch's is not, and NumPy gets nothing.

# %% answer q4
def online_softmax(q, k, v, tile):
    """q, k [T, K], v [T, V] -> output [T, V], log-sum-exp [T]."""
    # BEGIN SOLUTION
    T, K = q.shape
    m = torch.full((T, 1), -torch.inf, dtype=q.dtype)
    d = torch.zeros(T, 1, dtype=q.dtype)
    u = torch.zeros(T, v.shape[1], dtype=q.dtype)
    t = torch.arange(T)
    for now in t.split(tile):                        # the keys of a tile
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
def _head(rng, T, K, V, size=1.0):
    q, k, v = (torch.from_numpy(rng.normal(size=(T, n))) for n in (K, K, V))
    if abs(size) > 1.0:  # scores near `size`, apart by a few units
        q[:, 0], k[:, 0] = 1.0, size * K**0.5
    return q, k, v


@define_question(INFO["q4"], own_code=True, online_softmax=online_softmax)
def q4(rng):
    calls = []
    for T, K, V, tile, size in (
        (7, 4, 3, 3, 1.0),
        (12, 5, 2, 4, 1.0),
        (1, 2, 2, 8, 1.0),
        (20, 4, 3, 6, 1000.0),
        (20, 4, 3, 6, -1000.0),
        (200, 4, 3, 16, 1.0),
    ):
        inputs = f"T = {T}, tiles of {tile}" + (f", scores near {size:.0f}" if abs(size) > 1 else "")
        head, largest = _head(rng, T, K, V, size), T * max(tile, K, V + 1)
        bounds = {"max_entries": largest, "max_operations": 600 if T == 200 else 0}
        calls.append(Call("online_softmax", (*head, tile), inputs, Close(1e-5), **bounds))
    inputs = "T = 9, tiles of 4, a hidden score near 1000"
    calls.append(Call("online_softmax", (*_two_futures(rng, 9, 1000.0), 4), inputs, max_entries=9 * 4))
    return calls
