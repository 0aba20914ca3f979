# %% [markdown] q4 diagnose, 4 points, 25 minutes, level 2
# ## Two programs, one state
#
# One sequence with few heads leaves most of a GPU idle, so time is cut into $\lceil T/L \rceil$ segments of $L$ tokens, each with a program of its own. The kernel below adds
# what every segment writes, $\sum_j k_j^\top v_j$, to one state. In the interpreter its result is right. On a GPU it is wrong, and
# wrong in another way each time. Find out why, and write two kernels in its place that give equal bits in every run:
#
# - `segment_sums`: program $(n, s)$ stores the sum of segment $s$ of head $n$;
# - `states_before`: program $n$ turns these sums, in order, into the state *before* each segment, from a start state, and the state after the last
#   one.

# %% given q4
@triton.jit
def add_segments(k, v, state, T, L, C: tl.constexpr,
                 K: tl.constexpr, V: tl.constexpr):
    n, s = tl.program_id(0), tl.program_id(1)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.zeros((K, V), tl.float32)
    for start in range(s * L, min(s * L + L, T), C):
        t = start + i
        inside = ((t < s * L + L) & (t < T))[:, None]
        row = (n * T + t)[:, None]
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(state + kv, tl.load(state + kv) + S)

# %% answer q4
@triton.jit
def segment_sums(k, v, sums, T, L, C: tl.constexpr,
                 K: tl.constexpr, V: tl.constexpr):
    """k [N, T, K], v [N, T, V], sums [N, segments, K, V];
    N x segments programs."""
    # BEGIN SOLUTION
    n, s = tl.program_id(0), tl.program_id(1)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    S = tl.zeros((K, V), tl.float32)
    for start in range(s * L, min(s * L + L, T), C):
        t = start + i
        inside = ((t < s * L + L) & (t < T))[:, None]
        row = (n * T + t)[:, None]
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    place = (n * tl.num_programs(1) + s) * K * V
    tl.store(sums + place + c[:, None] * V + d, S)
    # END SOLUTION


@triton.jit
def states_before(sums, state, before, last, segments,
                  K: tl.constexpr, V: tl.constexpr):
    """sums, before [N, segments, K, V], state, last [N, K, V];
    N programs."""
    # BEGIN SOLUTION
    n = tl.program_id(0)
    c, d = tl.arange(0, K), tl.arange(0, V)
    kv = c[:, None] * V + d
    S = tl.load(state + n * K * V + kv)
    for s in range(0, segments):
        place = (n * segments + s) * K * V + kv
        tl.store(before + place, S)         # before the segment writes
        S += tl.load(sums + place)
    tl.store(last + n * K * V + kv, S)
    # END SOLUTION

# %% [markdown] solution q4
# `tl.load(state) + S` and `tl.store(state)` are three steps. Between them, another program may do the same, and one of the two sums is lost. The interpreter runs one program after the
# other, so its result is right. An atomic addition loses nothing, but adds in the order in which programs happen to end, and floating-point sums depend on the order:
# two runs differ in the last digits. With a place for each segment no two programs meet, and a second, small kernel
# adds in a fixed order. It stores before it adds: what segment $s$ needs is the state that segments $0 \dots s-1$ have left. A segment's end need not be a chunk's,
# so the mask asks for both ends.

# %% checks q4
@define_question(INFO["q4"], own_code=True, segment_sums=segment_sums, states_before=states_before)
def q4(rng):
    calls = []
    for n in range(8):
        N, K, V, C = int(rng.integers(1, 4)), *(int(rng.choice([16, 32])) for _ in range(3))
        L = C * int(rng.integers(1, 4)) if rng.random() < 0.5 else int(rng.integers(1, 3 * C))
        segments = int(rng.integers(1, 5))
        if n < 2:  # more segments, or longer ones, than are written out one by one
            N, C, L, segments = 1, 16, *((int(rng.integers(1, 3)), int(rng.integers(66, 71))) if n else (int(rng.integers(270, 330)), 2))
        if n == 4:  # segments of several of the largest tiles
            N, C, L, segments = 2, 64, 64 + int(rng.integers(1, 64)), int(rng.integers(2, 4))
        if n == 3:  # counts of which Triton makes constants
            segments = 1
        if n == 5:
            N, L, segments = max(N, 2), 1, int(rng.integers(2, 5))
        if n == 6:  # whole chunks, in whole segments
            N, C, L, segments = 3, 64, 128, 2
        segments = min(segments, 2) if n == 2 else segments  # wide, and slow row by row
        K, V = (32, 16) if n == 4 else (16, 32) if n == 6 else (16, 16) if n == 1 else (64, 64) if n == 2 else (K, V)
        if n == 7:  # the last segment is short of half its length
            N, L, segments = 2, max(L, 8), int(rng.integers(2, 5))
        T = L * segments - int(rng.integers(0, L)) * int(rng.random() < 0.6)
        if n == 7:
            T = L * (segments - 1) + int(rng.integers(1, L // 2))
        if n in (3, 6):
            T = 1 if n == 3 else L * segments
        large = 30.0 if n == 6 else 1.0
        k, v = (large * _normal(rng, N, T, w, scale=w**-0.5) for w in (K, V))
        launch = plan((N, segments), (2,), _order(rng))
        text = f"{N} heads, T = {T}, {segments} segments of {L}, C = {C}, K = {K}, V = {V}"
        calls.append(
            Call(
                "segment_sums",
                (launch, k, v, _nothing(N, segments, K, V), T, L, C, K, V),
                text,
                Close(3e-5),
                bounds={"loads": N * T * (K + V), "busiest": min(L, T) * (K + V), "accesses": N * segments * (6 * -(-L // C) + 6), "widest": 4096},
            )
        )
        sums, state = large * _normal(rng, N, segments, K, V), large * _normal(rng, N, K, V)
        if n == 4:  # a sum that is a million times as large stands before no segment
            sums[:, -1] *= 1e6
        launch = plan((N,), (2, 3), _order(rng))
        made = _nothing(N, segments, K, V), _nothing(N, K, V)
        calls.append(
            Call(
                "states_before",
                (launch, sums, state, *made, segments, K, V),
                f"{N} heads, {segments} segments, K = {K}, V = {V}",
                Close(1e-6),
                bounds={"loads": N * K * V * (segments + 1), "busiest": K * V * (segments + 1), "accesses": 4 * N * K * (segments + 2), "widest": 4096},
            )
        )
    return calls
