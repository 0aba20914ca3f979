# %% [markdown] q5 measure, 4 points, 30 minutes, level 2
# ## The size of a tile, the size of a chunk
#
# 1. How many bytes does the chapter's kernel `attention` read for one head of $T$ tokens of width $D$ in float32, with tiles of $C$ queries and of $C$
#    keys? Predict, then measure with `trace` (below), and write down what holds for every $T$, also where the last tile is shorter. (A formula: where it is graded there is no `trace`.)
# 2. Suppose that the chapter's kernel `linear` hid its waiting, its bytes and its operations behind one another. On a GPU that holds `places`
#    programs at a time it would take
#    $\max(\text{operations}/F,\ \text{bytes}/W,\ \lceil H/\text{places}\rceil\,\lceil T/C\rceil\,\tau)$
#    for $H$ heads, with $4CD + 4D^2$ operations and $4D$ numbers of 2 bytes for each token and head. Which of the chunks of 16, 32, 64, 128 and 256 tokens is the fastest? If several
#    are, the smallest of them, as it needs the fewest registers.

# %% given q5
@triton.jit
def attention(q, k, v, out, T, scale,
              C: tl.constexpr, D: tl.constexpr):    # [heads, T, D]
    c, i = tl.arange(0, D), tl.program_id(1) * C + tl.arange(0, C)
    at = tl.program_id(0) * T * D + c
    Q = tl.load(q + at + i[:, None] * D, i[:, None] < T, 0.0) * scale
    m = tl.full((C,), -float("inf"), tl.float32)
    d, u = tl.zeros((C,), tl.float32), tl.zeros((C, D), tl.float32)
    for start in range(0, (tl.program_id(1) + 1) * C, C):
        j = start + tl.arange(0, C)
        K = tl.load(k + at + j[:, None] * D, j[:, None] < T, 0.0)
        V = tl.load(v + at + j[:, None] * D, j[:, None] < T, 0.0)
        s = tl.dot(Q, tl.trans(K), input_precision="ieee")
        s = tl.where(i[:, None] >= j, s, -float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        p, fade = tl.exp(s - new[:, None]), tl.exp(m - new)
        d = d * fade + tl.sum(p, 1)
        u = u * fade[:, None] + tl.dot(p, V, input_precision="ieee")
        m = new
    tl.store(out + at + i[:, None] * D, u / d[:, None], i[:, None] < T)


def measure_bytes(T, C, D):
    """What one head reads, in the interpreter."""
    from linattn_exercises.launches import trace

    q, k, v, out = (torch.zeros(1, T, D) for _ in range(4))
    grid = (1, triton.cdiv(T, C))
    return trace(attention, grid, q, k, v, out, T, 1.0, C, D).bytes_loaded

# %% answer q5
def bytes_read(T, C, D):
    """What `attention` reads for one head, in bytes."""
    # BEGIN SOLUTION
    ends = [min(start + C, T) for start in range(0, T, C)]
    return 4 * D * (T + 2 * sum(ends))
    # END SOLUTION


def best_chunk(H, T, D, F, W, places, tau):
    """The fastest chunk of 16, 32, 64, 128, 256; the smallest of equals."""
    # BEGIN SOLUTION
    def seconds(C):
        operations = H * T * (4 * C * D + 4 * D**2) / F
        chain = math.ceil(H / places) * math.ceil(T / C) * tau
        return max(operations, 8 * H * T * D / W, chain)

    return min((16, 32, 64, 128, 256), key=seconds)
    # END SOLUTION

# %% [markdown] solution q5
# A query is read once. Tile $p$ of queries reads all keys and values up to its own end, $\min((p+1)C, T)$, so the last, shorter tile reads $T$ of them. For $T$ a multiple of $C$
# that is $T(T + C)/C$ rows of keys and values: about $T/C$ times what one reading of both would be, halved by the mask. Doubling $C$ halves it.
#
# For the chunk, three lines over $C$: one rises, one is level, one falls. As long as the chain is the highest, a larger chunk helps; once it is below the bytes
# or the operations, nothing is gained any more. The model leaves out registers, and that a larger step takes longer, so that it is
# right about the smallest good chunk and too kind to large ones.

# %% checks q5
@define_question(INFO["q5"], bytes_read=bytes_read, best_chunk=best_chunk)
def q5(rng):
    calls = []
    for T, C, D in ((1, 16, 16), (16, 16, 32), (48, 16, 16), (250, 64, 32), (100, 128, 64), (129, 64, 16), (4096, 128, 64)):
        calls.append(Call("bytes_read", (T, C, D), f"T = {T}, C = {C}, D = {D}", Exactly()))
    for _ in range(8):
        C, D = int(rng.choice([16, 32, 64, 128])), int(rng.choice([16, 32, 64, 128, 256]))
        T = int(rng.integers(1, 12 * C)) if rng.random() < 0.7 else C * int(rng.integers(1, 12))
        calls.append(Call("bytes_read", (T, C, D), f"T = {T}, C = {C}, D = {D}", Exactly()))
    seen = {16: 0, 32: 0, 64: 0, 128: 0, 256: 0}
    while len(calls) < 15 + 27:
        H = int(rng.choice([rng.integers(1, 64), rng.integers(64, 2000)]))
        T = int(10 ** rng.uniform(1, 4.5)) if rng.random() < 0.5 else 256 * int(rng.integers(1, 100))
        T = T // 256 * 256 + 1 if len(calls) == 39 and T > 256 else T  # the last chunk is of one token
        D = int(rng.choice([32, 64, 128, 256]))
        F, W = float(10 ** rng.uniform(13, 15.2)), float(10 ** rng.uniform(11.4, 12.8))
        places, tau = int(rng.integers(20, 600)), float(10 ** rng.uniform(-6.5, -5))
        if rng.random() < 0.3:
            H = places * int(rng.integers(1, 6)) + int(rng.integers(0, 2))
        times = sorted(
            max(H * T * (4 * C * D + 4 * D**2) / F, 8 * H * T * D / W, -(-H // places) * -(-T // C) * tau)
            for C in seen
        )
        near = any(1 < times[n + 1] / times[n] < 1.0001 for n in range(4))  # rounding would decide
        best = best_chunk(H, T, D, F, W, places, tau)
        n = len(calls)  # in the first of them it decides how the quotients are rounded
        waves, steps = (max(H / places, 1) if n < 19 else H // places + 1 if n < 23 else -(-H // places)), (lambda C: T / C if n < 19 else T // C + 1)
        rounded = min(seen, key=lambda C: max(H * T * (4 * C * D + 4 * D**2) / F, 8 * H * T * D / W, waves * steps(C) * tau))
        padded = min(seen, key=lambda C: max(H * -(-T // C) * C * (4 * C * D + 4 * D**2) / F, 8 * H * T * D / W, -(-H // places) * -(-T // C) * tau))
        # of a sequence shorter than a chunk; of a last chunk that is shorter
        lengths = [lambda C: T * min(C, T), lambda C: T // C * C * C + (T % C) ** 2]
        other = [min(seen, key=lambda C: max(H * (4 * D * pairs(C) + 4 * T * D**2) / F, 8 * H * T * D / W, -(-H // places) * -(-T // C) * tau)) for pairs in lengths]
        # operations of a token more or less, of another product or of a sum, bytes of whole chunks, and a chunk too few: FLOPs, tokens, chunks
        square = 4 * D**2
        wrong = [
            lambda C: (4 * (C + 1) * D + square, T, -(-T // C)),
            lambda C: (4 * C * D + 6 * D**2, T, -(-T // C)),
            lambda C: (4 * C * D + square, -(-T // C) * C, -(-T // C)),
            lambda C: (4 * (C - 1) * D + square, T, -(-T // C)),
            lambda C: (4 * C * D + square + D, T, -(-T // C)),
            lambda C: (4 * C * D + square, T, -(-(T - 1) // C)),
            lambda C: (4 * C * D + square, T * (1 + 1 / (4 * D)), -(-T // C)),  # a number more for each token
        ]
        if 34 <= n < 41:
            of = wrong[n - 34]
            if best == min(seen, key=lambda C: max(H * T * of(C)[0] / F, 8 * H * of(C)[1] * D / W, -(-H // places) * of(C)[2] * tau)):
                continue
        if near or seen[best] >= 8 or (n < 27 and rounded == best) or (27 <= n < 30 and padded == best) or (30 <= n < 34 and other[n % 2] == best):
            continue
        seen[best] += 1
        text = f"H = {H}, T = {T}, D = {D}, F = {F:.3g}, W = {W:.3g}, {places} places, tau = {tau:.2g}"
        calls.append(Call("best_chunk", (H, T, D, F, W, places, tau), text, Exactly()))
    return calls
