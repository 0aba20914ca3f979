# %% [markdown] q1 implement, 5 points, 30 minutes, level 3
# ## A state that turns
#
# cosFormer2's table has $\cos\bigl(\omega_c(t-j)\bigr)$, and the package makes it from $2K$ features with the
# absolute positions of queries and keys. After a million tokens these are large angles, whose float32 cosines are
# off in the second digit. There is another way, in which no position occurs: let the *state* turn.
#
# Write one head of it with a decay for each token and channel as well (chapter 3); a loop over tokens will do:
#
# $$
# A_{tj} = \sum_c \cos\bigl(\omega_c(t-j)\bigr)\,\alpha_{j+1,c}\cdots\alpha_{t,c}\;q_{tc}k_{jc}, \qquad j \le t ,
# $$
#
# so that a sequence can be cut anywhere and go on with the state alone. With $\omega = 0$ it is then GLA, with
# $\alpha = 1$ cosFormer2. The state has $2KV$ numbers: for what was written $n$ tokens ago under $k$, the real and the
# imaginary part of $e^{i\omega_c n}\alpha\cdots\alpha\;k_c v$, as `torch.view_as_real` stores them. Some decays forget
# within a token; $\log\alpha = -40$ and $-200$ are among the inputs, and states of the order of $10^6$; what a
# token writes may be as large. Sequences have at most 600 tokens. The check sees the numbers only.

# %% answer q1
def attend(q, k, v, speed, log_decay, state):
    """Outputs [T, V] and the last state [K, V, 2].

    q, k, log_decay [T, K], v [T, V], speed [K] in radians, state [K, V, 2].
    """
    # BEGIN SOLUTION
    S, outputs = torch.view_as_complex(state), []
    for t in range(len(q)):
        step = torch.exp(torch.complex(log_decay[t], speed))
        S = step[:, None] * S + torch.outer(k[t], v[t])
        outputs.append(q[t] @ S.real)
    return torch.stack(outputs), torch.view_as_real(S)
    # END SOLUTION

# %% [markdown] solution q1
# Write the cosine as the real part of $e^{i\omega(t-j)}$. What lies between $j$ and $t$ is then a product of
# *steps*, each $\alpha_{t,c}\,e^{i\omega_c}$: a decay that is complex. So
#
# $$
# S_t = \operatorname{diag}(\alpha_t \odot e^{i\omega})\,S_{t-1} + k_t^\top v_t, \qquad
# o_t = q_t \operatorname{Re} S_t ,
# $$
#
# with real queries, keys and values. The complex state has $2KV$ numbers, as many as the $2K$ features. It is a
# diagonal state space model (chapter 4) with eigenvalues on the unit circle, or within it where there is a decay.
# The order is turn, write, read: what is written at $t$ has neither
# turned nor decayed. In float32 the error of a state that turns grows with the distance $t - j$; that of absolute
# angles grows with the position itself, so that after a million tokens even neighbours are off.


# %% checks q1
@define_question(INFO["q1"], attend=attend)
def q1(rng):
    calls = []
    for T, K, V, fast, least, filled in (
        (6, 3, 2, 1.0, -0.5, False),
        (1, 3, 4, 2.0, -0.5, True),
        (9, 4, 3, 0.0, -0.5, True),
        (10, 4, 3, 0.0, -0.5, True),
        (12, 4, 3, 3.0, 0.0, True),
        (40, 5, 1, 0.3, 0.0, False),
        (30, 1, 4, 1.0, -0.1, True),
        (60, 4, 3, 0.5, -40.0, True),
        (600, 2, 1, 0.5, -40.0, True),
        (300, 6, 3, 0.1, -0.02, True),
    ):
        q, k = (torch.from_numpy(rng.normal(size=(T, K))) for _ in range(2))
        v, state = (torch.from_numpy(rng.normal(size=size)) for size in ((T, V), (K, V, 2)))
        speed = fast * torch.from_numpy(rng.uniform(0.2, 1.0, size=K))
        if T == 9:                                 # backwards, and beyond half a turn
            speed = torch.from_numpy(rng.uniform((-3.0, -1.0, 3.5, 4.5), (-1.5, -0.2, 4.5, 6.0)))
        if T == 12:
            speed[0] = 0.0                         # one channel does not turn
        log_decay = least * torch.from_numpy(rng.uniform(size=(T, K)))
        if least == -40:
            log_decay[:, :2] = torch.tensor([least, -200.0])  # two channels forget all at each token; sums reach -10,000 and -100,000
        inputs = f"T = {T}, K = {K}, V = {V}, speeds up to {fast:g}, log decays down to {least:g}, "
        inputs += "with a state" if filled else "from an empty state"
        calls.append(Call("attend", (q, k, v, speed, log_decay, state * filled), inputs, Close(1e-9)))
    q, k, v = (torch.from_numpy(rng.normal(size=(14, 3))) for _ in range(3))
    for t, *zero in ((2, v), (4, k), (6, k, v), (8, q, k, v), (10, q), (12, q, v)):
        for x in zero:
            x[t] = 0.0                             # the state turns and decays all the same
    speed, log_decay = torch.from_numpy(rng.uniform(0.2, 1.0, size=3)), torch.from_numpy(rng.uniform(-0.5, -0.1, size=(14, 3)))
    speed[2] = math.pi / 2
    for part, which in (((1.0, 1.0), "with a state"), ((1.0, 0.0), "with a real state"), ((0.0, 1.0), "with an imaginary state")):
        state = torch.from_numpy(rng.normal(size=(3, 3, 2)) * part)
        inputs = f"T = 14, K = 3, V = 3, some queries, keys and values are zeros, {which}"
        calls.append(Call("attend", (q, k, v, speed, log_decay, state), inputs, Close(1e-9)))
    state = 1e6 * torch.from_numpy(rng.normal(size=(3, 3, 2)))  # large, and forgotten by the first token
    log_decay = log_decay.clone()
    log_decay[0] = -40.0
    inputs = "T = 14, K = 3, V = 3, a large state that the first token forgets"
    calls.append(Call("attend", (q, k, v, speed, log_decay, state), inputs, Close(1e-9)))
    for least in (-20.5, -22.0, -24.0, -26.0, -28.0, -30.0, -32.0, -33.0):  # and not quite forgotten
        log_decay = log_decay.clone()
        log_decay[0] = least
        inputs = f"T = 14, K = 3, V = 3, a large state that the first token leaves e^{least:g} of"
        calls.append(Call("attend", (q, k, v, speed, log_decay, state), inputs, Close(1e-9)))
    for least in (-20.5, -22.0, -24.0, -26.0, -28.0, -30.0, -32.0, -33.0):  # nor what a token wrote, by one token or by two
        for later in (0.0, float(rng.uniform(0.2, 0.8))):
            few, k2, v2 = (torch.from_numpy(rng.uniform(0.3, 0.8, size=(3, 3)) * rng.choice((-1.0, 1.0), size=(3, 3))) for _ in range(3))
            few[0], k2[0], v2[0] = 0.0, k2[0].sign() * 1e3, v2[0] * 1.5e3
            gates = torch.from_numpy(rng.uniform(-0.5, -0.1, size=(3, 3)))
            gates[1], gates[2] = (1 - later) * least, later * least
            inputs = f"T = 3, K = 3, V = 3, an empty state, and large writes of which e^{least:g} is left"
            calls.append(Call("attend", (few, k2, v2, speed, gates, torch.zeros_like(state)), inputs, Close(1e-9)))
    q, still = torch.from_numpy(rng.uniform(2.0, 3.0, size=(2, 3))), torch.zeros(3, dtype=torch.float64)
    k, log_decay = torch.zeros(2, 3, dtype=torch.float64), torch.full((2, 3), -40.0, dtype=torch.float64)
    inputs = "T = 2, K = 3, V = 3, a large state that is forgotten, and nothing is written"
    calls.append(Call("attend", (q, k, v[:2], still, log_decay, torch.full_like(state, 1e6)), inputs, Close(1e-9)))
    q, still, state = torch.from_numpy(rng.uniform(2.0, 3.0, size=(2, 16))), torch.zeros(16, dtype=torch.float64), torch.full((16, 3, 2), 1e6, dtype=torch.float64)
    for least in (-40.0, -37.9, -36.0):            # the same with more channels, which together read a little more than nothing
        log_decay, k = torch.full((2, 16), least, dtype=torch.float64), torch.zeros(2, 16, dtype=torch.float64)
        inputs = f"T = 2, K = 16, V = 3, a large state of which e^{least:g} is left, and nothing is written"
        calls.append(Call("attend", (q, k, v[:2], still, log_decay, state), inputs, Close(1e-9)))
    for least in (-34.0, -35.0, -36.0, -37.0, -37.9):  # and what these channels were written
        q, k = torch.from_numpy(rng.uniform((0.0, 2.0), (0.0, 3.0), size=(16, 2))).T.contiguous(), torch.zeros(2, 16, dtype=torch.float64)
        k[0], v = 1e3, torch.tensor([[1.2e3], [0.0]], dtype=torch.float64).repeat(1, 3)
        log_decay = least + torch.from_numpy(rng.uniform(-0.05, 0.05, size=(2, 16)))
        inputs = f"T = 2, K = 16, V = 3, an empty state, and a large write of which about e^{least:g} is left"
        calls.append(Call("attend", (q, k, v, still, log_decay, torch.zeros_like(state)), inputs, Close(1e-9)))
    q, k, v = (torch.from_numpy(rng.normal(size=size)) for size in ((600, 2), (600, 2), (600, 1)))
    speed, log_decay = torch.from_numpy(rng.uniform(0.2, 1.0, size=2)), torch.from_numpy(rng.uniform(-1e-3, 0.0, size=(600, 2)))
    log_decay[:, 0] = -40.0
    inputs = "T = 600, K = 2, V = 1, one channel forgets all at each token, and one hardly anything"
    calls.append(Call("attend", (q, k, v, speed, log_decay, torch.from_numpy(rng.normal(size=(2, 1, 2)))), inputs, Close(1e-9)))
    for n in range(12):                            # all that the text allows, together
        T, K, V = (int(size) for size in rng.integers(1, (13, 6, 6))) if n % 2 else (n // 4 + 2,) * 3
        q, k, v, state, speed, log_decay = (
            torch.from_numpy(rng.normal(size=size)) for size in ((T, K), (T, K), (T, V), (K, V, 2), K, (T, K))
        )
        speed *= float(rng.choice((0.1, 3.0, 12.0)))
        log_decay = -float(rng.choice((0.1, 1.0, 40.0))) * log_decay.abs().clamp(max=1)
        for x, some in ((speed, 0.0), (speed, math.pi / 2), (log_decay, 0.0), (log_decay, -40.0), (q, 0.0), (k, 0.0), (v, 0.0)):
            x[torch.from_numpy(rng.uniform(size=x.shape) < rng.choice((0.0, 0.0, 0.4)))] = some
        state[..., rng.integers(0, 2)] *= float(rng.integers(0, 3) > 0)
        inputs = f"T = {T}, K = {K}, V = {V}, tokens of all kinds"
        calls.append(Call("attend", (q, k, v, speed, log_decay, state), inputs, Close(1e-9)))
    return calls
