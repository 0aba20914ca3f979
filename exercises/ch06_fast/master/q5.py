# %% [markdown] q5 measure, 4 points, 30 minutes, level 2
# ## The size of a tile, the size of a chunk
#
# 1. How many bytes does the chapter's kernel `attention` read for one head of $T$ tokens of width $D$ in float32, with tiles of $C$ queries and of $C$
#    keys? Predict, then measure with `trace` (below), and write down what holds for every $T$, also where the last tile is shorter. (A formula: where it is graded there is no `trace`.)
# 2. Suppose that the chapter's kernel `linear` hid its waiting, its bytes and its operations behind one another. On a GPU that holds `places`
#    programs at a time it would take
#    $\max(\text{operations}/F,\ \text{bytes}/W,\ \lceil H/\text{places}\rceil\,\lceil T/C\rceil\,\tau)$
#    for $H$ heads, with $4CD + 4D^2$ operations and $4D$ numbers of 2 bytes for each token and head. Which of the chunks of 16, 32, 64, 128 and 256 tokens is the fastest? If several
#    are, the smallest of them, as it needs the fewest registers. (Times that are not equal differ by 0.01 % or more.)

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
    """What one head reads."""
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
_CHUNKS = (16, 32, 64, 128, 256)
_COUNTS = {  # what the text says: numbers are of all heads, steps of one chain
    "operations": lambda H, T, D, C: H * T * (4 * C * D + 4 * D**2),
    "numbers": lambda H, T, D, C: 4 * H * T * D,
    "waves": lambda H, places: math.ceil(H / places),
    "steps": lambda T, C: math.ceil(T / C),
    "chunks": lambda T, D: _CHUNKS,
    "longest": max,
}
_SLIPS: dict[str, list] = {  # each wrong in one count; every answer is asked for cases that tell each of them
    "operations": [
        lambda H, T, D, C: H * math.ceil(T / C) * C * (4 * C * D + 4 * D**2),
        lambda H, T, D, C: H * T * (4 * min(C, T) * D + 4 * D**2),
        lambda H, T, D, C: H * (4 * D * (T // C * C * C + (T % C) ** 2) + 4 * T * D**2),
        lambda H, T, D, C: H * (T - 1) * (4 * C * D + 4 * D**2),
        lambda H, T, D, C: H * (T + 1) * (4 * C * D + 4 * D**2),
        lambda H, T, D, C: H * T * (4 * (C - 1) * D + 4 * D**2),
        lambda H, T, D, C: H * T * (4 * (C + 1) * D + 4 * D**2),
        lambda H, T, D, C: H * T * (2 * C * D + 4 * D**2),
        lambda H, T, D, C: H * T * (4 * C * D + 2 * D**2),
        lambda H, T, D, C: H * T * (4 * C * D + 6 * D**2),
        lambda H, T, D, C: H * T * (4 * C * D + 4 * D**2 + D),
        lambda H, T, D, C: H * T * (4 * C * D + 4 * D**2 - D),
        lambda H, T, D, C: H * T * (4 * C * D + 4 * D**2 - 2 * D),
        lambda H, T, D, C: H * T * (4 * C * D + 4 * D**2 + C),  # the mask
        lambda H, T, D, C: H * (T * (4 * C * D + 4 * D**2) + math.ceil(T / C) * D**2),  # sums of states
        lambda H, T, D, C: H * T * (C * (2 * D - 1) + D * (2 * C - 1) + 2 * D * (2 * D - 1)),  # one addition fewer
    ],
    "numbers": [
        lambda H, T, D, C: 4 * H * math.ceil(T / C) * C * D,
        lambda H, T, D, C: 4 * H * (T - 1) * D,
        lambda H, T, D, C: 4 * H * (T + 1) * D,
        lambda H, T, D, C: 3 * H * T * D,
        lambda H, T, D, C: 3.5 * H * T * D,
        lambda H, T, D, C: H * T * (4 * D + 1),
        lambda H, T, D, C: 4 * H * T * D + H * D**2,  # a start state
        lambda H, T, D, C: 4 * H * T * D + D**2,
        lambda H, T, D, C: H * D * (4 * T - (T - 1) % C - 1),  # the last chunk is not written
    ],
    "waves": [
        lambda H, places: max(H / places, 1),
        lambda H, places: H // places + 1,
        lambda H, places: max(H // places, 1),
        lambda H, places: max(round(H / places), 1),
        lambda H, places: max(math.ceil((H - 1) / places), 1),
        lambda H, places: math.ceil((H + 1) / places),
        lambda H, places: math.ceil(H / (places - 1)),
        lambda H, places: math.ceil(H / (places + 1)),
        lambda H, places: max(int(H / places + 0.999), 1),
        lambda H, places: max(round(H / places + 0.499), 1),
        lambda H, places: min(math.ceil(H / places), 5),
        lambda H, places: min(math.ceil(H / places), 10),
    ],
    "steps": [
        lambda T, C: T / C,
        lambda T, C: T // C + 1,
        lambda T, C: max(T // C, 1),
        lambda T, C: max(round(T / C), 1),
        lambda T, C: math.ceil((T - 1) / C),
        lambda T, C: math.ceil((T + 1) / C),
        lambda T, C: int(T / C + 0.99),
        lambda T, C: math.ceil(T / C) if T >= C else T / C,
        lambda T, C: math.ceil(T / C) if T >= C else 0,
    ],
    "chunks": [
        *(lambda T, D, left=left: [C for C in _CHUNKS if left != C] for left in _CHUNKS),
        lambda T, D: (8, *_CHUNKS),
        lambda T, D: (*_CHUNKS, 512),
        lambda T, D: _CHUNKS[::-1],  # the largest of equals
        lambda T, D: [C for C in _CHUNKS if C <= T] or [16],
        lambda T, D: [C for C in _CHUNKS if C <= 4 * D],
        lambda T, D: [C for C in _CHUNKS if C >= D] or [256],
    ],
    "longest": [
        lambda *seconds: sum(seconds),
        lambda operations, moved, chain: max(operations + moved, chain),
        lambda operations, moved, chain: max(operations, moved + chain),
        lambda operations, moved, chain: max(operations + chain, moved),
        lambda operations, moved, chain: max(operations, moved),
        lambda operations, moved, chain: max(operations, chain),
        lambda operations, moved, chain: max(moved, chain),
        lambda *seconds: float(f"{max(seconds):.3e}"),
        lambda *seconds: round(max(seconds), 7),
        lambda *seconds: round(max(seconds), 9),
        lambda *seconds: round(max(seconds), 10),
    ],
}


def _chunk_seconds(case, **slip):
    """Return the seconds with each chunk, by the counts of the text but for a slip."""
    H, T, D, F, W, places, tau = case
    of = _COUNTS | slip
    return {
        C: of["longest"](
            of["operations"](H, T, D, C) / F,
            2 * of["numbers"](H, T, D, C) / W,
            of["waves"](H, places) * of["steps"](T, C) * tau,
        )
        for C in of["chunks"](T, D)
    }


def _fastest(case, **slip):
    """Return the chunk with the fewest seconds, the first of equals."""
    seconds = _chunk_seconds(case, **slip)
    return min(seconds, key=seconds.__getitem__)


def _rounding_decides(case):
    """Return whether two chunks take nearly the same time, and not the same."""
    times = sorted(_chunk_seconds(case).values())
    return any(1 < times[n + 1] / times[n] < 1.0001 for n in range(len(times) - 1))


def _draw_case(rng):
    """Return H, T, D, F, W, places, tau; most of the time such that a small slip changes the answer."""
    H = int(rng.choice([rng.integers(1, 9), rng.integers(9, 64), rng.integers(64, 2000)]))
    T = int(10 ** rng.uniform(1, 4.5))
    if rng.random() < 0.5:
        T = 256 * int(rng.integers(1, 100)) + int(rng.integers(0, 2))
    D = int(rng.choice([32, 64, 128, 256]))
    F, W = float(10 ** rng.uniform(13, 15.2)), float(10 ** rng.uniform(11.4, 12.8))
    places, tau = int(rng.integers(20, rng.choice([600, 4000]))), float(10 ** rng.uniform(-6.5, -5))
    if rng.random() < 0.4:
        H = places * int(rng.integers(1, 6)) + int(rng.integers(0, 2))
    if rng.random() < 0.8:  # the chain of one chunk is nearly as long as its bytes, or as the next one's operations
        C = int(rng.choice(_CHUNKS))
        level = rng.choice([H * T * (8 * C * D + 4 * D**2) / F, 8 * H * T * D / W])
        off = 1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-3.5, -0.5)
        tau = float(level * off / (math.ceil(H / places) * math.ceil(T / C)))
    return H, T, D, F, W, places, tau


def _draw_cases(rng):
    """Return cases: three that tell each slip from the text's counts, and three for each chunk."""
    slips = [{name: slip} for name, of_count in _SLIPS.items() for slip in of_count]
    goals = [lambda case, best, slip=slip: _fastest(case, **slip) != best for slip in slips]
    goals += [lambda case, best, C=C: best == C for C in _CHUNKS]
    cases: list[tuple] = []
    for goal in goals:
        missing = 3 - sum(goal(case, best) for case, best in cases)
        while missing > 0:
            case = _draw_case(rng)
            best = _fastest(case)
            if goal(case, best) and not _rounding_decides(case):
                cases.append((case, best))
                missing -= 1
    return [case for case, _ in cases]


@define_question(INFO["q5"], bytes_read=bytes_read, best_chunk=best_chunk)
def q5(rng):
    calls = []
    for T, C, D in ((1, 16, 16), (16, 16, 32), (48, 16, 16), (47, 16, 16), (250, 64, 32), (100, 128, 64), (129, 64, 16), (257, 128, 16), (4096, 128, 64), (50_001, 16, 64)):
        calls.append(Call("bytes_read", (T, C, D), f"T = {T}, C = {C}, D = {D}", Exactly()))
    for _ in range(8):
        C, D = int(rng.choice([16, 32, 64, 128])), int(rng.choice([16, 32, 64, 128, 256]))
        T = int(rng.integers(1, 12 * C)) if rng.random() < 0.7 else C * int(rng.integers(1, 12))
        calls.append(Call("bytes_read", (T, C, D), f"T = {T}, C = {C}, D = {D}", Exactly()))
    cases = _draw_cases(rng)
    moved = (int(rng.integers(1_640, 1_780)) - 0.4) * 1e-12  # seconds so few, another picosecond is far from them
    cases.append((1, 32, 32, 1e15, 8 * 32 * 32 / moved, 188, (moved + float(rng.uniform(6e-13, 8e-13))) / 2))
    for H, T, D, places, tau in ((640, 138, 64, 132, 7.82e-6), (640, 34, 128, 264, 3.63e-6), (640, 58, 32, 132, 2.0659e-4)):
        faster = float(rng.uniform(0.5, 2))  # by few steps, a chunk is far from where the lines cross
        cases.append((H, T, D, 1e14 * faster, 4e12 * faster, places, tau / faster))
    H, T, slower = int(rng.integers(1, 60)), int(rng.integers(1_000, 4_000)), 1 + float(rng.uniform(1.05e-4, 1.15e-4))
    level = H * T * (8 * 32 * 64 + 4 * 64**2) / 1e14  # the operations of 64 are as much faster than the chain of 32 as they have to be
    cases.append((H, T, 64, 1e14, 2e12, 159, slower * level / math.ceil(T / 32)))
    for case in cases:
        H, T, D, F, W, places, tau = case
        text = f"H = {H}, T = {T}, D = {D}, F = {F:.3g}, W = {W:.3g}, {places} places, tau = {tau:.2g}"
        calls.append(Call("best_chunk", case, text, Exactly()))
    return calls
