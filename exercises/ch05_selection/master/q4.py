# %% [markdown] q4 implement, 5 points, 40 minutes, level 3
# ## The triangular system with a decay
#
# The gated delta rule lets the state decay, then erases, then writes:
#
# $$
# S_t = \bigl(I - \beta_t k_t^\top k_t\bigr)\,\alpha_t S_{t-1} + \beta_t k_t^\top v_t, \qquad
# o_t = q_t S_t,
# $$
#
# with numbers $\alpha_t = e^{g_t}$ and $\beta_t \ge 10^{-4}$ for each token; keys need not have length 1. Derive its
# chunk form and write it for one chunk of $C$ tokens, which starts from the state $S$: one triangular
# system and matrix products. A loop over tokens gives the numbers too, as does the package, and they are
# all that the check can see, so you can compare with either; it is not what is asked for.
#
# Log decays $g_t$ go down to $-30$ a token, states are of the order of $10^6$ at most, and $C$ goes to 64 and more. So take exponentials of sums
# $g_{j+1} + \dots + g_i$ with $0 \le j \le i$ only, which are never positive: $e^{-\Lambda_j}$ alone, with
# $\Lambda_j = g_1 + \dots + g_j$, overflows.
#
# You may use `torch.linalg.solve_triangular(A, B, upper=False)`, which solves $AX = B$.

# %% answer q4
def chunk(q, k, v, beta, log_decay, S):
    """One chunk: q, k [C, K], v [C, V], beta, log_decay [C], S [K, V]
    -> outputs [C, V], the state after it [K, V]."""
    # BEGIN SOLUTION
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
    # END SOLUTION

# %% [markdown] solution q4
# With $R_t = \alpha_t S_{t-1}$, what is left of the state when token $t$ comes, and $u_t = \beta_t(v_t -
# k_t R_t)$ the rule is $S_t = \alpha_t S_{t-1} + k_t^\top u_t$: linear attention with a scalar decay and
# other values, chapter 3. Its solution within a chunk is $R_i = e^{\Lambda_i} S + \sum_{j<i}
# e^{\Lambda_i - \Lambda_j} k_j^\top u_j$. Insert this into $u_i$:
#
# $$
# u_i + \beta_i \sum_{j<i} e^{\Lambda_i-\Lambda_j}(k_i\cdot k_j)\, u_j
# = \beta_i\bigl(v_i - e^{\Lambda_i} k_i S\bigr).
# $$
#
# So chapter 3's three kinds of exponents stand where they always do: from the chunk's start (of the
# state, in the outputs *and* on the right side of the system), from token to token (in the outputs and in
# the system), and to the chunk's end (of what is handed on). The system has the table of $KK^\top$ where
# the outputs have that of $QK^\top$, with the same decays.
#
# Whether the exponent of $k_i S$ is $\Lambda_i$ or $\Lambda_{i-1}$ is the order of the rule. With
# $\Lambda_{i-1}$, there and in the system, one erases what was there *before* the decay, which is $S_t =
# (\alpha_t I - \beta_t k_t^\top k_t)S_{t-1} + \beta_t k_t^\top v_t$. With $\beta_t = 1$ that rule does
# not replace: after it the key recalls $v_t - (1 - \alpha_t)\,k_t S_{t-1}$.
#
# A strong decay makes the system easy, because it tends to the identity: what has faded does not have to
# be erased.

# %% checks q4
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
