# %% [markdown] q7 implement, 6 points, 50 minutes, level 3
# ## The delta rule, whole
#
# Write the kernel of the delta rule, chunk by chunk, from a start state. Token $t$ replaces what its key recalls,
#
# $$
# S_t = S_{t-1} + \beta_t\, k_t^\top (v_t - k_t S_{t-1}), \qquad o_t = q_t S_t ,
# $$
#
# so in a chunk that begins with $S$ the values that are really written solve $(I + A)\,U = \operatorname{diag}(\beta)(V - KS)$, with
# $A_{ij} = \beta_i\, k_i\cdot k_j$ for $j < i$, else 0. Keys have length 1 and may be alike, even all the same; $\beta$ lies between 0 and 1; the last chunk may be shorter. Each
# input is read once. `C` is 16, 32 or 64.

# %% answer q7
@triton.jit
def delta_rule(q, k, v, beta, state, out, last, T,
               C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    """q, k [N, T, K], v, out [N, T, V], beta [N, T],
    state, last [N, K, V]; N programs."""
    # BEGIN SOLUTION
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        R = tl.where(i[:, None] == i, 1.0, 0.0)
        for level in tl.static_range(6):                # up to C = 64
            part = i // (1 << level)
            low = (part[:, None] % 2 == 1) & (part == part[:, None] - 1)
            L = tl.where(low, A, 0.0)
            L = tl.dot(L, R, input_precision="ieee")
            R -= tl.dot(R, L, input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        U = tl.dot(R, U, input_precision="ieee")
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)
    # END SOLUTION

# %% [markdown] solution q7
# Besides the inverse there are three products more than in linear attention: the keys among each other, the keys with the state, and the inverse with what is written. A token's output comes *after* its write, so
# the mask of $QK^\top$ includes the diagonal, that of $A$ does not. $\beta$ belongs to the token that writes, which is the row, in $A$ as on the right. Behind the end, keys and
# $\beta$ read as 0, so nothing is written.
#
# There is a short way to the inverse, and it is tempting: as $A$ has zeros on and above the diagonal, $A^C = 0$, and $(I+A)^{-1} = (I - A)(I + A^2)(I + A^4)\cdots$. On paper.
# With equal keys and $\beta = 1$ the entries of the powers are binomial coefficients, up to $5\cdot10^{17}$ at $C = 64$, and cancel to $\pm1$ and 0. Float32 has 7 digits.
# Merging blocks never makes an entry that is larger than those of the result. (Row after row is right as well. A program cannot pick a row of a tile, but a sum over a mask with one row left does.)

# %% checks q7
# Sums that cancel are rounded in another way each time, so the mistake is not known by its results.
POWERS = (
    "A series for the inverse needs C - 1 powers of A, and is then right on paper. With keys that are alike they grow to "
    "binomial coefficients, which cancel, and float32 has 7 digits. Merge blocks, or go row by row."
)


@define_question(INFO["q7"], own_code=True, delta_rule=delta_rule)
def q7(rng):
    calls = []
    for n in range(11):
        N, K, V = int(rng.integers(1, 3)), *(int(rng.choice([16, 32])) for _ in range(2))
        C = (64 if n != 8 else 32) if n > 5 else int(rng.choice([16, 32]))
        T = int(rng.integers(1, 3 * C)) if n < 6 and rng.random() < 0.7 else C * int(rng.integers(1, 3))
        T = C + 1 if n == 4 else T  # the last token begins a chunk
        if n == 2:
            K = V = 64
        if n in (3, 6):  # keys wider than values, and narrower
            N, (C, K, V) = 2, (16, 32, 16) if n == 3 else (64, 16, 32)
        if n in (3, 6, 9):
            T = C + int(rng.integers(1, C if n == 9 else min(C, 32)))
        if n == 1:  # a count of which Triton makes a constant
            T = 1
        if n in (7, 10):  # keys alike, not the same, and every one replaces the others: in the largest chunks, and in the smallest
            N, C, K, V = 4, 64 if n == 7 else 16, 16, 16
            T = C if n == 7 else 2 * C
        if n == 5:  # more chunks than are written out one by one
            N, C, K, V, T = 1, 16, 32, 32, int(rng.integers(300, 340))
        q, k, v = (_normal(rng, N, T, w, scale=w**-0.5) for w in (K, K, V))
        alike = n > 6
        k = k + (40.0 if n == 7 else 20.0) * k[:, :1] if alike else k
        k = k / k.norm(dim=-1, keepdim=True)
        if n in (8, 9):
            k[:] = k[:, :1].clone()
        if n == 8:  # and some the other way round
            k[torch.from_numpy(rng.random((N, T)) < 0.4)] *= -1.0
        beta = torch.from_numpy(rng.uniform(0, 1, (N, T)).astype("float32"))
        beta[torch.from_numpy(rng.random((N, T)) < 0.3)] = 1.0
        if n in (7, 9, 10):
            beta[:] = 1.0
        if n == 3:
            beta[torch.from_numpy(rng.random((N, T)) < 0.3)] = 0.0
        state = torch.zeros(N, K, V) if n == 4 else _normal(rng, N, K, V)
        if n == 2:  # numbers of another size
            q, v, state = 10 * q, 30 * v, 30 * state
        launch = plan((N,), (5, 6), _order(rng))
        text = f"{N} heads, T = {T}, C = {C}, K = {K}, V = {V}{', keys alike' if alike else ''}"
        one = T * (2 * K + V + 1) + K * V
        bounds = {"loads": N * one, "busiest": one, "accesses": N * (12 * -(-T // 16) + 12), "widest": 4096}
        arguments = (launch, q, k, v, beta, state, _nothing(N, T, V), _nothing(N, K, V), T, C, K, V)
        hint = POWERS if alike else ""  # who comes so far has a series that ends early, or loses digits
        calls.append(Call("delta_rule", arguments, text, Close(3e-5), bounds=bounds, hint=hint))
    return calls
