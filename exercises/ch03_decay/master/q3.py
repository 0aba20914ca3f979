# %% [markdown] q3 implement, 5 points, 35 minutes, level 3
# ## The table of a vector gate, by matrix products
#
# For a gate per channel the table of a chunk is
#
# $$
# A_{ij} = \sum_c q_{ic}\, k_{jc}\, e^{\Lambda_{ic} - \Lambda_{jc}} \quad (j \le i), \qquad A_{ij} = 0 \quad (j > i),
# $$
#
# with $\Lambda$ the running sums of the log decays. Compute it by the way of GLA: cut the $C$ tokens into
# parts of `part` (the last may be shorter). Blocks below the diagonal are matrix products of $q$ and $k$,
# each multiplied by a decay towards the boundary between them; blocks on the diagonal are summed entry by
# entry. Log decays go down to $-1000$ a token, so take no exponential of a positive sum: it overflows. Queries go up
# to $10^6$.
#
# The check counts what you do. With $n$ parts of $P$ tokens, and $C$ rounded up to $nP$, these bounds hold,
# the last one for the longer calls:
#
# - no tensor has more entries than the largest of $C^2$, $CK$ and $P^2K$, of truth values eight times as
#   many;
# - 40 torch operations a part, 6 a token, and 40 besides; slices and other views are free;
# - a *work* of $C^2K + 10\,CPK$. A matrix product's work is its multiplications, that of any other
#   operation the entries that it computes or adds up.
#
# Use ordinary operations of torch, such as `exp`, `@` and slices. The check does them for you, so that it can
# count them; NumPy and the book's package get no values.

# %% given q3
def whole(q, k, log_decay):                 # [C, K] three times
    lam = log_decay.cumsum(0)
    gap = (lam[:, None] - lam).clamp(max=0)   # [C, C, K]: too large
    return torch.einsum("ik,jk,ijk->ij", q, k, gap.exp()).tril()

# %% answer q3
def table(q, k, log_decay, part):
    """A [C, C], the same as `whole`."""
    # BEGIN SOLUTION
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
    # END SOLUTION

# %% [markdown] solution q3
# Let $m$ be the last token before the part of $i$. For $j \le m < i$ the exponent splits into
# $\Lambda_i - \Lambda_m$ and $\Lambda_m - \Lambda_j$, and both are sums of log decays of tokens that lie
# between, so neither is positive. One factor goes onto $q_i$, the other onto $k_j$, and all earlier tokens of
# a part are one matrix product. Which boundary is taken matters: with the *first* boundary for all parts the
# second difference would be positive for most $j$. On the diagonal there is no boundary between $i$ and $j$,
# and the sum has to be done entry by entry, $P^2K$ exponentials each. Those of the diagonal are $CPK$ in all
# instead of $C^2K$: with $C = 64$ and $P = 16$ a quarter. GLA's kernel has the same two kinds of blocks, with
# the products in bfloat16 and the diagonal in float32.
#
# The check also takes a loop over rows that lets the keys so far decay in place and multiplies them with one query. It
# costs no more, but all it has are products of a matrix with a vector: a GPU does them one after another, and at the
# pace of its memory.

# %% checks q3
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
