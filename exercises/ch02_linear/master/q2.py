# %% [markdown] q2 implement, 5 points, 30 minutes, level 3
# ## A chunk form that forgets
#
# Retention ([Sun et al. 2023](https://arxiv.org/abs/2307.08621)) multiplies the state by one constant
# $\gamma = e^{g}$ at every step, before it writes. Turn the recurrent form into the chunk form: within a
# chunk of `chunk` tokens a table, between chunks the state, and no loop over tokens. The last chunk may be
# shorter, the sequence goes on from a state that is given, and $\gamma$ may be as small as $e^{-20}$.
#
# The check counts what you do. With $n$ chunks of $C$ tokens, these bounds hold for the longer calls:
#
# - no tensor has more than $nC^2$ entries, of truth values eight times as many;
# - 40 torch operations a chunk, and 40 besides; slices and other views are free;
# - a *work* of $(C + 8)(K + V) + 4KV + 16C$ a token. A matrix product's work is its multiplications, that of any other
#   operation the entries that it computes or adds up.
#
# So that it can count, the check keeps the values of all tensors and does for you each elementary operation of torch,
# such as `exp`, `@` and a slice; NumPy, the book's package and others get nothing.

# %% given q2
def recurrent(q, k, v, g, state):   # [T, K] twice, [T, V], number, [K, V]
    S, o = state, []
    for t in range(len(q)):
        S = math.exp(g) * S + torch.outer(k[t], v[t])
        o.append(q[t] @ S)
    return torch.stack(o), S

# %% answer q2
def chunked(q, k, v, g, state, chunk):
    """The output [T, V] and the last state [K, V] of `recurrent`."""
    # BEGIN SOLUTION
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk)):
        i = torch.arange(len(Q), dtype=q.dtype)       # 0 ... C - 1
        gap = i[:, None] - i
        D = (g * gap.clamp(min=0)).exp().tril()       # [C, C]
        since = (g * (i + 1)).exp()[:, None]          # S was handed on
        left = (g * (len(Q) - 1 - i)).exp()[:, None]  # until the end
        o.append(since * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + (left * K).T @ V
    return torch.cat(o), S
    # END SOLUTION

# %% [markdown] solution q2
# Count decays. Token $i$ of a chunk (from 0) reads the old state after its own decay and those before it in
# the chunk: $\gamma^{i+1}$. It reads token $j \le i$ through $\gamma^{i-j}$. At the end of a chunk of $C$
# tokens the old state has been multiplied $C$ times and what token $i$ wrote $C - 1 - i$ times. For the
# shorter last chunk $C$ is *its* length. Most wrong chunk forms are wrong by one power of $\gamma$ at the
# edge of a chunk, so they agree with the right one wherever $\gamma$ is near 1 or there is only one chunk.
# Test with small $\gamma$, a start state and a ragged end.

# %% checks q2
@define_question(INFO["q2"], own_code=True, chunked=chunked)
def q2(rng):
    calls, small = [], []
    for T in (1, 1, 2, 3, 4, 6, 7, 8):  # any sizes; one chunk or many, whole or not
        chunk, K, V = (int(n) for n in rng.integers(1, (T + 3, 5, 5)))
        small.append((T, chunk, float(rng.choice([0.0, -0.2, -1.0, -3.0, -20.0])), K, V))
    for T, chunk, g, K, V in (
        (8, 4, -0.7, 3, 4),
        (11, 4, -0.7, 3, 4),
        (5, 8, -2.0, 3, 4),
        (6, 1, -0.3, 3, 4),
        (192, 64, -0.05, 3, 4),
        (120, 4, -0.3, 3, 4),
        (350, 256, -0.01, 3, 4),
        (200, 100, -20.0, 3, 4),
        (5, 2, 0.0, 1, 1),
        (25, 10, -20.0, 1, 2),
        (110, 128, -0.1, 2, 1),
        (150, 40, 0.0, 1, 1),
        (1000, 900, float(rng.uniform(-1.8, -1.6)), 3, 4),
        (9, 4, -3.0, 3, 4),
        (16, 8, -2.05, 3, 4),  # what is left of the state after a chunk is little, and is seen
        (4, 4, -3.7, 3, 4),
        (1000, 100, -0.02, 40, 40),
        (1200, 600, -0.002, 40, 40),
        (128, 64, -0.03, 64, 64),
        *small,
        (700, 600, -20.0, 3, 4),  # the future is e^11980 times too large
        (7, 3, -20.0, 3, 2),  # what is left of a large state is seen
    ):
        q, k, v = _sequence(rng, T, K, V)
        state = torch.from_numpy(rng.normal(size=(K, V)))
        inputs = f"T = {T}, chunks of {chunk}, gamma = {math.exp(g):.2g}"
        if (T, chunk, g, K, V) == (7, 3, -20.0, 3, 2):
            state, inputs = 1e6 * state, f"{inputs}, a large state"
        n = -(-T // chunk)
        work = n * chunk * ((chunk + 8) * (K + V) + 4 * K * V + 16 * chunk)
        size = n * chunk * max(chunk, V)
        most = {"entries": size, "integers": size, "truths": 8 * size}
        most |= {"operations": 40 * n + 40, "work": work}
        bounds = most if T >= 100 else {}
        calls.append(Call("chunked", (q, k, v, g, state, chunk), inputs, Close(1e-8), bounds=bounds))
    states = 1e6 * float(rng.uniform(0.7, 1.5)) * torch.ones(1, 1).double()
    usual = torch.from_numpy(rng.uniform(0.08, 0.12, size=(3, 2, 1)))
    large = torch.tensor([[[0.0], [1.0]], [[1e3], [0.1]], [[1e3], [0.1]]]).double() * float(rng.uniform(0.7, 1.5))
    asked = ((usual, -10.0, states, "state"), (10 * usual, -15.5, states, "state"), (large, -20.0, 0.0 * states, "key and value"))
    for (q, k, v), g, state, loud in asked:
        inputs = f"T = 2, chunks of 2, gamma = {math.exp(g):.2g}, a large {loud}"
        calls.append(Call("chunked", (q, k, v, g, state, 2), inputs, Close(1e-8)))
    return calls
