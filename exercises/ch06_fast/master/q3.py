# %% [markdown] q3 implement, 5 points, 40 minutes, level 3
# ## Forget, inside the kernel
#
# Below is a kernel of linear attention as in the chapter, without decay and with a start state. Give it a decay for each token: before token $t$ is
# written, the state is multiplied by $e^{g_t}$, where $g_t \le 0$ stands in `log_decay`. As before, each input is read once, the last
# chunk may be shorter, and `last` receives the state after the last token. Some tokens forget nearly everything: $g_t = -40$ is among the
# inputs, for one token as for many in a row, and no single one is below it. Values and states may be of the order of $10^{20}$.

# %% given q3
@triton.jit
def plain(q, k, v, state, out, last, T,
          C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)                                # a head
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d                 # its state
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee")
        A = tl.where(i[:, None] >= i, A, 0.0)
        o = tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)

# %% answer q3
@triton.jit
def decayed_attention(q, k, v, log_decay, state, out, last, T,
                      C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    """q, k [N, T, K], v, out [N, T, V], log_decay [N, T],
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
        g = tl.load(log_decay + n * T + t, mask=t < T, other=0.0)
        lam = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, lam[:, None] - lam, 0.0)   # no future
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(lam)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - lam)[:, None]            # until the end
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)
    # END SOLUTION

# %% [markdown] solution q3
# With $\Lambda_i = g_1 + \dots + g_i$ in a chunk: the old state reaches token $i$ through $e^{\Lambda_i}$, its own decay included; token $j$ reaches token $i \ge j$ through
# $e^{\Lambda_i - \Lambda_j}$, and the end through $e^{\Lambda_C - \Lambda_j}$. Above the diagonal $\Lambda_i - \Lambda_j$ is positive, up to
# $40$ for each token in between, and $e^{89}$ is infinite in float32. `tl.where` drops that, as it selects; a mask that multiplies gives $\infty\cdot 0$, which is NaN, and so does
# the gradient of a `where` in PyTorch. With the mask before the exponential there is nothing to fear. $e^{\Lambda_i}e^{-\Lambda_j}$, as factors of $Q$ and $K$, also
# overflows for pairs with $j \le i$. Behind the end of the sequence the decay reads as 0, so nothing is forgotten there, and a key of zeros writes nothing.

# %% checks q3
def _far_from_half(rng):
    """Return a number from 4.3 to 7.8 that half precision changes much, and its exponential as well."""
    x = torch.from_numpy((rng.integers(1100, 2000, 200) + rng.uniform(0.3, 0.7, 200)).astype("float32")) / 256  # steps of 1/256
    weight = torch.exp(-x)
    return x[((weight.half().float() - weight).abs() / weight).argmax()]


@define_question(INFO["q3"], own_code=True, decayed_attention=decayed_attention)
def q3(rng):
    calls = []
    for n in range(13):
        N, K, V, C = int(rng.integers(1, 4)), *(int(rng.choice([16, 32])) for _ in range(3))
        T = int(rng.integers(1, 4 * C)) if rng.random() < 0.7 else C * int(rng.integers(1, 4))
        g = -torch.from_numpy(rng.uniform(0, 1, (N, T)).astype("float32")) * float(rng.choice([0.02, 0.5, 2.0]))
        if n == 8:  # more chunks than are written out one by one
            N, C, T = 1, 16, int(rng.integers(530, 600))
            g = torch.full((N, T), -0.02)
            g[:, : T // 2][torch.from_numpy(rng.random((N, T // 2)) < 0.5)] = -40.0  # what all decays sum up to
            g[:, T // 2 :] = -torch.from_numpy(rng.uniform(2e-5, 8e-5, (N, T - T // 2)).astype("float32"))  # little for a chunk, and not for all
        if n == 5:  # the last token begins a chunk
            N, C, T = int(rng.integers(2, 4)), 16, 33
            g = -torch.from_numpy(rng.uniform(0, 0.05, (N, T)).astype("float32"))
        if n == 2:  # wide
            N, C, K, V, T = 1, 64, 64, 64, 64 + int(rng.integers(1, 64))
            g = -torch.from_numpy(rng.uniform(0, 0.02, (N, T)).astype("float32"))  # so little that all reaches all
        if n == 1:  # hard everywhere, and nothing is forgotten at once; the last head, of all sizes
            N, C, K, V, T = 3, 32, 16, 16, 32 + int(rng.integers(1, 32))
            g = torch.full((N, T), -25.0)
            g[1:] = -torch.from_numpy(rng.uniform([[12], [0]], [[16], [3]], (2, T)).astype("float32"))
        if n == 0:  # no exponential of a sum over a whole chunk of 64 is a number, of half of it neither
            N, C, K, V = 1, 64, 16, 16
            T = 2 * C + int(rng.integers(1, 32))
            g = torch.full((N, T), -40.0)
            g[:, C + 40 : 2 * C] = -0.02  # after sums of -1,600 some tokens reach each other
        if n > 9:  # little is forgotten, but by one token, or nothing is
            N, C, K, V, T = 2, 16, 16, 32, 48
            g = -torch.from_numpy(rng.uniform(0, 0.02, (N, T)).astype("float32"))
        if n == 9:  # one token forgets a part of what was large, and nothing else does
            N, T = 3, 3 * C
            g = torch.zeros(N, T)
        if n in (5, 8, 9):  # keys wider than values and than chunks, and narrower
            K, V = (32, 16) if n == 5 else (16, 32)
        if n in (4, 7):  # whole chunks
            C = C if n == 4 else 64
            T = 2 * C if n == 4 else C
        if n == 4:  # some forget nothing, among others that do
            g = -torch.from_numpy(rng.uniform(0.1, 1, (N, T)).astype("float32"))
            g[torch.from_numpy(rng.random((N, T)) < 0.3)] = 0.0
        if n == 7:  # nearly all of it
            g = -torch.from_numpy(rng.uniform(6, 8, (N, T)).astype("float32"))
        if n == 3:  # numbers of another size, and sums of decays that keep the digits which these ask for
            C, T = 16, min(T, 64)
            g = g[:, :T].clone()
        if n == 6:  # a count of which Triton makes a constant
            T, g = 1, g[:, :1].clone()
        if n in (3, 6):
            g[torch.from_numpy(rng.random(g.shape) < rng.choice([0.1, 0.9]))] = -40.0
        q, k, v = (_normal(rng, N, T, w, scale=w**-0.5) for w in (K, K, V))
        state = _normal(rng, N, K, V, scale=1.0 if n else 1e12)  # the first forgets all of it
        if n == 5:  # one token forgets much, and not all, of what was large and has not been asked for
            at = C * int(rng.integers(0, 2)) + int(rng.integers(1, C))
            g[:, at] = -float(rng.uniform(15.2, 16.5))
            q[:, :at] = 0.0
            v[:, :at] *= 1e5
            state *= 1e5
        if n == 9:  # large is the state, what this chunk has written, and both
            at = C + int(rng.integers(1, C))
            g[:, at] = -torch.stack([_far_from_half(rng) for _ in range(N)])
            q[:, :at] = 0.0
            much = 10 * torch.exp(-g[:, at])[:, None, None]
            v[1:, C:at] *= 5 * much[1:]
            v[2, :C] *= much[2]
            state[[0, 2]] *= much[[0, 2]]
        for head in range(N) if n > 9 else ():  # enormous is what one token forgets, all or nearly, or what comes after it
            at = 5 + C * head
            if n < 12:
                gap = (80.0, 52.0)[head] if n == 10 else (40.0, float(rng.uniform(33.5, 37)))[head]
                last = at + (n == 10)  # two tokens share the sum
                size = 1e20 if n == 10 or head == 0 else 10 * math.exp(gap)
                g[head, at : last + 1] = -gap / (1 + last - at)
                q[head, :last] = 0.0
                v[head, :at] *= size
                state[head] *= size
            else:
                q[head, at:] = 0.0
                v[head, at:] *= 1e20
        if n == 3:
            q, v, state = 10 * q, 30 * v, 30 * state
        launch = plan((N,), (5, 6), _order(rng))
        arguments = (launch, q, k, v, g, state, _nothing(N, T, V), _nothing(N, K, V), T, C, K, V)
        text = f"{N} heads, T = {T}, C = {C}, K = {K}, V = {V}, decays to e^{float(g.min()):.2g}"
        one = T * (2 * K + V + 1) + K * V
        bounds = {"loads": N * one, "busiest": one, "accesses": N * (12 * -(-T // 16) + 12), "widest": 4096}
        close = Close(1e-4 if n not in (0, 11) else 1e-3)  # of 64 decays times log2(e) a sum and a running sum differ by 5e-4
        calls.append(Call("decayed_attention", arguments, text, close, bounds=bounds))
    return calls
