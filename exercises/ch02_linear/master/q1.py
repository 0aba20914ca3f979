# %% [markdown] q1 derive, 4 points, 20 minutes, level 2
# ## From a step to a table
#
# RWKV-5 and RWKV-6 ([Peng et al. 2024](https://arxiv.org/abs/2404.05892)) read *before* they write, and let
# the token itself take part with weights of its own. Simplified to one decay $\alpha_t$ for all channels,
# and with a vector $w \in \mathbb R^K$ (their $u$), the step is
#
# $$
# \begin{aligned}
# o_t &= q_t\bigl(S_{t-1} + (w \odot k_t)^\top v_t\bigr), \\
# S_t &= \alpha_t S_{t-1} + k_t^\top v_t , \qquad S_0 = 0 .
# \end{aligned}
# $$
#
# Derive the table $A \in \mathbb R^{T\times T}$ with $O = AV$. Decays come as logarithms, and some of them
# forget within a few tokens, or at once: $\log\alpha_t$ goes down to $-1000$, and queries up to $10^6$. The check does torch's elementary
# operations for you (`exp`, `@`, `cumsum` and their like) and counts them; lists, NumPy and other packages get no values.
# At most 40 are allowed (slices and other views are free), so go neither step by step nor entry by entry; and
# at $T = 200$ a work of $T^2(K + 32)$, where a matrix product's work is its multiplications, and that of any
# other operation the entries that it computes or adds up.

# %% given q1
def step_by_step(q, k, v, log_decay, w):   # [T, K] twice, [T, V], [T], [K]
    S, o = torch.zeros(q.shape[1], v.shape[1], dtype=q.dtype), []
    for t in range(len(q)):
        write = torch.outer(k[t], v[t])
        o.append(q[t] @ (S + w[:, None] * write))
        S = log_decay[t].exp() * S + write
    return torch.stack(o)

# %% answer q1
def table(q, k, log_decay, w):
    """A [T, T] with step_by_step(q, k, v, log_decay, w) = A @ v."""
    # BEGIN SOLUTION
    c = log_decay.cumsum(0)
    gap = (c - log_decay)[:, None] - c        # log of alpha_{j+1..t-1}
    past = torch.ones_like(gap).tril(-1).bool()
    decay = gap.masked_fill(~past, -torch.inf).exp()
    return decay * (q @ k.T) + torch.diag((q * w * k).sum(-1))
    # END SOLUTION

# %% [markdown] solution q1
# Token $j$ writes at $j$ and is read at $t > j$ out of $S_{t-1}$, so it has been through the decays of
# $j+1, \dots, t-1$: not that of $t$, which comes after the reading, and not its own. With
# $c_t = \sum_{i\le t}\log \alpha_i$ the factor is $e^{c_{t-1} - c_j}$, and on the diagonal stands
# $\sum_c q_{tc}\,w_c\,k_{tc}$. The *difference* must be formed before the exponential. Written as
# $e^{c_{t-1}}\cdot e^{-c_j}$ it is a product of two numbers of which one overflows and the other vanishes,
# after three tokens with $\log\alpha = -40$ in float32. Models differ in whether they read before they
# write; when you port one, check that first.

# %% checks q1
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
