"""Checks of ``ch06_fast``, generated from master/*.py by ``make exercises``: edit those."""


import math
import os

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import torch
import triton
import triton.language as tl


from linattn_exercises.calls import Call
from linattn_exercises.comparison import Close, Exactly, Within
from linattn_exercises.kernel_memory import plan
from linattn_exercises.questions import QuestionInfo, define_question


def _normal(rng, *shape, scale=1.0):
    """Return normal numbers in float32."""
    return torch.from_numpy((scale * rng.normal(size=shape)).astype("float32"))


def _nothing(*shape):
    """Return a tensor that a kernel is to fill: NaN."""
    return torch.full(shape, math.nan)


def _order(rng):
    """Return the seed of an order of programs."""
    return int(rng.integers(1, 2**31))


VERSION = "33c8d6e6fd49"
INFO = {
    "q1": QuestionInfo(
        "ch06_fast", "q1", 'Which batch is free?',
        "derive", points=3, minutes=15, level=1,
    ),
    "q2": QuestionInfo(
        "ch06_fast", "q2", 'One pass over a long row',
        "implement", points=4, minutes=25, level=2,
    ),
    "q3": QuestionInfo(
        "ch06_fast", "q3", 'Forget, inside the kernel',
        "implement", points=5, minutes=40, level=3,
    ),
    "q4": QuestionInfo(
        "ch06_fast", "q4", 'Two programs, one state',
        "diagnose", points=4, minutes=25, level=2,
    ),
    "q5": QuestionInfo(
        "ch06_fast", "q5", 'The size of a tile, the size of a chunk',
        "measure", points=4, minutes=30, level=2,
    ),
    "q6": QuestionInfo(
        "ch06_fast", "q6", 'Against time',
        "implement", points=5, minutes=35, level=3,
    ),
    "q7": QuestionInfo(
        "ch06_fast", "q7", 'The delta rule, whole',
        "implement", points=6, minutes=50, level=3,
    ),
}


# --- q1: Which batch is free? ---


def step_seconds(P, batch, cache, rate, peak):
    """The least time of a step."""
    return max((2 * P + batch * cache) / rate, 2 * P * batch / peak)


def ridge_batch(P, cache, rate, peak):
    """The batch at which arithmetic takes as long as memory."""
    gap = 2 * P / peak - cache / rate   # by which arithmetic catches up
    return 2 * P / rate / gap if gap > 0 else math.inf


def double_context(P, batch, per_token, rate, peak):
    """The context at which a step takes twice as long."""
    start = step_seconds(P, batch, 0, rate, peak)
    return (2 * start * rate - 2 * P) / (batch * per_token)


@define_question(
    INFO["q1"], step_seconds=step_seconds, ridge_batch=ridge_batch, double_context=double_context
)
def q1(rng):
    calls = []
    tie = 2.0 ** int(rng.integers(30, 36))  # a cache that grows as fast as the arithmetic: never
    calls.append(Call("ridge_batch", (tie, tie / 64, 2.0**42, 2.0**49), "as many bytes as FLOPs allow", Within(1.000001)))
    nearly = 2.0**33, 2.0**27 * (1 - 2.0**-40), 2.0**42, 2.0**49  # and one that grows less fast by a hair
    calls.append(Call("ridge_batch", nearly, "nearly as many bytes as FLOPs allow", Within(1.000001)))
    nearly = tie, 2 * tie * (1 - 2.0**-47), 2.0**42, 2.0**42
    calls.append(Call("ridge_batch", nearly, "nearly as many bytes as FLOPs allow, as many FLOPs as bytes a second", Within(1.000001)))
    few = 2.0**20                           # of a small model that is less than 1e-7 bytes
    nearly = few, few / 64 * (1 - 2.0**-40), 2.0**42, 2.0**49
    calls.append(Call("ridge_batch", nearly, "nearly as many bytes as FLOPs allow, a small model", Within(1.000001)))
    below, above = (0.15, 0.4), (0.6, 0.85)  # of half a sequence
    for low, high, part, other in ((40, 80, below, above), (400, 900, above, below)):  # batches on both sides of where arithmetic begins to decide
        P, rate, per_token = (float(10 ** rng.uniform(*span)) for span in ((8, 11), (11.6, 12.9), (3, 6)))
        turn = int(rng.integers(low, high)) + float(rng.uniform(*part))
        peak = rate * turn
        gpu = f"{rate:.3g} bytes/s, {peak:.3g} FLOP/s"
        for share in (0.0, float(rng.uniform(0.1, 0.4)), float(rng.uniform(0.55, 0.8))):  # of the cache with which it never does
            ridge = math.floor(turn / (1 - share)) + float(rng.uniform(*other)) if share else turn
            cache = 2 * P * rate / peak * (1 - turn / ridge)
            near = math.floor(ridge), math.floor(ridge) + 1
            for batch in (1, *near, *(round(part * ridge) for part in (0.3, 0.6, 0.8, 1.25, 1.6, 3))):
                text = f"P = {P:.3g}, batch {batch}, {gpu}"
                inputs = P, batch, cache, rate, peak
                calls.append(Call("step_seconds", inputs, f"{text}, cache {cache:.3g} bytes", Within(1.000001)))
                if not cache:
                    inputs, text = (P, batch, per_token, rate, peak), f"{text}, {per_token:.4g} bytes a token"
                    calls.append(Call("double_context", inputs, text, Within(1.000001)))
    P, rate = (float(10 ** rng.uniform(*span)) for span in ((8, 11), (11.6, 12.9)))
    peak, gpu = rate * float(rng.uniform(0.3, 0.6)), "a machine that moves more bytes than it does FLOPs"
    for share in rng.uniform((0.3, 0.7, 1.2), (0.5, 0.9, 3.0)).tolist():
        cache = share * 2 * P * rate / peak
        calls.append(Call("ridge_batch", (P, cache, rate, peak), f"P = {P:.3g}, cache {cache:.3g} bytes, {gpu}", Within(1.000001)))
        for batch in (1, int(rng.integers(2, 60))):
            text = f"P = {P:.3g}, batch {batch}, {gpu}"
            calls.append(Call("step_seconds", (P, batch, cache, rate, peak), f"{text}, cache {cache:.3g} bytes", Within(1.000001)))
            per_token = float(10 ** rng.uniform(3, 6))
            calls.append(Call("double_context", (P, batch, per_token, rate, peak), f"{text}, {per_token:.4g} bytes a token", Within(1.000001)))
    for n in range(12):
        P = float(10 ** rng.uniform(7, 11 if n not in (3, 4) else 7.1))
        rate, peak = float(10 ** rng.uniform(11.3, 12.9)), float(10 ** rng.uniform(13.5 if n not in (3, 4) else 15, 15.2))
        if n in (5, 6):  # a machine that moves nearly as much as it computes
            peak = rate * float(rng.uniform(*((0.3, 0.8) if n == 5 else (1.5, 3.0))))
        if n == 7:  # a context of less than a token
            P, rate, peak = 1e7, 1e12, float(10 ** rng.uniform(13.9, 14.5))
        ridge = 2 * P * rate / peak  # bytes of cache from which on no batch is enough
        near = ridge * (1 - 10 ** -rng.uniform(*((8.6, 9) if n == 3 else (4, 6))))  # a batch of millions
        kinds = [0.0, ridge * rng.uniform(0.01, 0.9), ridge * rng.uniform(1.1, 20), near]
        cache = float(kinds[n] if n < 4 else 0.9 * ridge if n == 4 else rng.choice(kinds))  # n = 4: seconds are few
        cache = 0.0 if n in (5, 6) else cache
        batch = int(rng.choice([1, rng.integers(2, 60), rng.integers(200, 4000)]) if n else rng.integers(2000, 4000))
        if n == 5:  # arithmetic takes longer, whatever the batch
            batch = 1
        if n == 2:  # too large for memory alone, and memory takes longer all the same
            batch = int(4 * peak / rate) + 1
        gpu = f"{rate:.3g} bytes/s, {peak:.3g} FLOP/s"
        text = f"P = {P:.3g}, cache {cache:.3g} bytes, {gpu}"
        calls.append(
            Call("step_seconds", (P, batch, cache, rate, peak), f"{text}, batch {batch}", Within(1.000001))
        )
        calls.append(Call("ridge_batch", (P, cache, rate, peak), text, Within(1.000001)))
        per_token = float(10 ** rng.uniform(3, 6))
        batch, per_token = (4000, 1e6) if n == 7 else (batch, per_token)
        if n == 8:  # a context of nearly a hundred thousand million tokens
            P, batch = float(10 ** rng.uniform(10.9, 11)), 1
            per_token = 2 * P / float(rng.uniform(9.1e10, 9.9e10))
        calls.append(
            Call(
                "double_context",
                (P, batch, per_token, rate, peak),
                f"P = {P:.3g}, batch {batch}, {per_token:.4g} bytes a token, {gpu}",
                Within(1.000001),
            )
        )
    for turn, slow in rng.uniform((372, 1.01e-3), (380, 1.1e-3), (2, 2)).tolist():
        P, rate = (float(10 ** rng.uniform(*span)) for span in ((7, 11), (11.6, 12.9)))
        gpu = f"{rate:.3g} bytes/s, {slow * rate:.3g} FLOP/s"  # a batch far below 1
        calls.append(Call("ridge_batch", (P, 0.0, rate, slow * rate), f"P = {P:.3g}, cache 0 bytes, {gpu}", Within(1.000001)))
        gpu = f"1e+12 bytes/s, {turn * 1e12:.5g} FLOP/s"  # and a context of hardly a thousandth of a token
        calls.append(Call("double_context", (1e7, 4000, 1e8, 1e12, turn * 1e12), f"P = 1e+07, batch 4000, 1e+08 bytes a token, {gpu}", Within(1.000001)))
    for _ in range(4):                      # a small model, with which seconds are few
        P, batch, per_token, rate = float(rng.uniform(1.0e6, 1.1e6)), int(rng.integers(1, 60)), float(10 ** rng.uniform(3, 6)), float(10 ** rng.uniform(12.85, 12.9))
        text = f"P = {P:.4g}, batch {batch}, {per_token:.4g} bytes a token, {rate:.3g} bytes/s, 8e+14 FLOP/s"
        calls.append(Call("double_context", (P, batch, per_token, rate, 8e14), text, Within(1.000001)))
        calls.append(Call("step_seconds", (P, batch, 0.0, rate, 8e14), f"P = {P:.4g}, batch {batch}, cache 0 bytes, {rate:.3g} bytes/s, 8e+14 FLOP/s", Within(1.000001)))
    return calls


# --- q2: One pass over a long row ---


@triton.jit
def row_logsumexp(x, out, n_columns, TILE: tl.constexpr):
    """x [rows, n_columns], out [rows]; as many programs as rows."""
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column,
                    mask=column < n_columns, other=-float("inf"))
        new = tl.maximum(most, tl.max(s, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(most - safe) + tl.sum(tl.exp(s - safe), 0)
        most = new
    tl.store(out + row, most + tl.log(total))


@define_question(INFO["q2"], own_code=True, row_logsumexp=row_logsumexp)
def q2(rng):
    calls = []
    for n in range(21):
        tile = int(rng.choice([16, 32, 64]))
        rows, columns = int(rng.integers(1, 5)), int(rng.integers(2, 5 * tile))
        if rng.random() < 0.3:
            columns = tile * int(rng.integers(1, 4))
        x = _normal(rng, rows, columns, scale=float(rng.choice([1.0, 30.0])))
        x = x + float(rng.choice([0.0, -50.0, 50.0, -1e4, 1e4]) if n else -1e4)
        if rng.random() < 0.5 and n:
            x[torch.from_numpy(rng.random((rows, columns)) < 0.4)] = -math.inf
        if rng.random() < 0.4 and n:
            x[int(rng.integers(rows)), : int(rng.integers(1, columns + 1))] = -math.inf
        if rng.random() < 0.3 and n:
            x[int(rng.integers(rows))] = -math.inf
        if n in (1, 2):  # a long row, in which the maximum rises or falls
            rows, tile = 1, tile if n == 1 else 64  # one for which no four loads do, of 4,096 at most
            columns = 40 * tile + 1 if n == 1 else 257 * tile + int(rng.integers(1, tile))
            x = _normal(rng, rows, columns) + (3 - 2 * n) * torch.linspace(-300, 300, columns)
            x[:, -1] = 310.0  # behind the end of any fixed number of tiles
        if n == 3:  # a maximum far below 0 after tiles that have none, and such tiles after it
            columns = int(rng.integers(4, 6)) * tile + int(rng.integers(1, tile))
            x = _normal(rng, rows, columns) - float(rng.uniform(2.2e4, 2.9e4))  # and below customary masked scores
            x[0, : tile * int(rng.integers(1, 3))] = x[-1, 3 * tile :] = -math.inf
        if n == 4:  # so few that no digit is lost in a sum
            rows, columns = 4, int(rng.integers(2, 6))
            x = _normal(rng, rows, columns)
        if n == 5:  # the maximum jumps by 20,000 from tile to tile, up in one row and down in the other
            rows, columns = 2, 3 * tile + int(rng.integers(1, tile))
            jump = torch.where(torch.arange(columns) < tile, -1e4, 1e4)
            x = _normal(rng, rows, columns) + torch.stack([jump, -jump])
        if n == 6:  # many small terms beside one that is large, the first or the last
            rows, tile, columns = 2, 64, 20 * 64
            x = _normal(rng, rows, columns, scale=0.1) - 16.6
            x[0, 0] = x[1, -1] = 0.0
        if n == 7:  # the maximum stands there several times, in several tiles
            rows, tile = 2, 16
            columns = 3 * tile + int(rng.integers(1, tile))
            x = torch.from_numpy(rng.integers(-2, 3, (rows, columns)).astype("float32"))
            x[1] = 3.0
        if n == 8:  # a count of which Triton makes a constant
            columns = 1
            x = _normal(rng, rows, columns)
        if n in (9, 10, 11):  # rows of nothing, beside others: in several tiles, in a part of one, in one
            columns = (3 * tile + 5, tile - 3, tile)[n - 9]
            rows, x = 3, _normal(rng, 3, columns)
            x[1] = -math.inf
            if n == 11:  # a masked score of another kind, in a row of nothing else
                x[0] = -1e4
            x[0, tile : 2 * tile] = -math.inf  # and a tile of nothing between others
            x[2] -= 300.0  # what is masked is not its maximum
        if n == 12:  # a jump of the maximum that float32 can just hold, once
            rows, columns = 2, 3 * tile + int(rng.integers(1, tile))
            x = torch.where(torch.arange(columns) < tile, 0.0, 87.5).repeat(2, 1)
            x[1] = 87.5 - x[1]
        if n == 13:  # one entry at the end above all that many others sum up to
            rows, tile, columns = 4, 64, 20 * 64
            x = _normal(rng, rows, columns, scale=0.1)
            x[:, -1] = torch.from_numpy(rng.uniform(4.1, 7.9, rows))
        if n == 16:  # so far from 0 that a sum kept as its logarithm loses what a tile adds
            rows, tile, columns = 1, 16, 500 * 16
            x = _normal(rng, rows, columns, scale=0.1) + 2.9e4
        if n == 17:  # as low as entries may be, which is not nothing
            rows, tile, columns = 3, 16, 16 * int(rng.integers(1, 4)) + int(rng.integers(1, 16))
            x = torch.full((rows, columns), -3e4)
            x[1], x[2, :5] = -29_999.0, -math.inf
        if n == 18:  # many entries that are nothing beside one
            rows, tile, columns = 2, 64, 8_000
            x = torch.full((rows, columns), -1000.0)
            x[0, 0] = x[1, -1] = 0.0
        if n == 19:  # many that are 80 and 84 above the first tile
            rows, tile, columns = 2, 64, 8_000
            x = torch.tensor([79.9, 83.9])[:, None].repeat(1, columns)
            x[:, :tile] = 0.0
        if n == 20:  # ten thousand that add up to one; beside one, as many that matter in the fourth digit
            rows, tile, columns = 3, 64, 10_000
            x = torch.full((rows, columns), -18.155)  # of 64 the sum is a float32 beside 1
            x[0], x[1, -1], x[2, 0] = -math.log(columns), 0.0, 0.0
        launch = plan((rows,), (1,), _order(rng))
        text = f"{rows} x {columns} entries about {float(x.nan_to_num(neginf=0).mean()):.3g}, tiles of {tile}"
        bounds = {"loads": rows * columns, "busiest": columns, "accesses": rows * (2 * -(-columns // tile) + 3), "widest": 4096}
        far = float(x.nan_to_num(neginf=0).abs().max()) > 5e3  # where 1e-5 of what is returned would be much
        close = Close(1e-6 if far else 3e-5 if n in (6, 20) else 1e-5)
        calls.append(Call("row_logsumexp", (launch, x, _nothing(rows), columns, tile), text, close, bounds=bounds))
    return calls


# --- q3: Forget, inside the kernel ---


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


@triton.jit
def decayed_attention(q, k, v, log_decay, state, out, last, T,
                      C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    """q, k [N, T, K], v, out [N, T, V], log_decay [N, T],
    state, last [N, K, V]; N programs."""
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


# --- q4: Two programs, one state ---


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


@triton.jit
def segment_sums(k, v, sums, T, L, C: tl.constexpr,
                 K: tl.constexpr, V: tl.constexpr):
    """k [N, T, K], v [N, T, V], sums [N, segments, K, V];
    N x segments programs."""
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


@triton.jit
def states_before(sums, state, before, last, segments,
                  K: tl.constexpr, V: tl.constexpr):
    """sums, before [N, segments, K, V], state, last [N, K, V];
    N programs."""
    n = tl.program_id(0)
    c, d = tl.arange(0, K), tl.arange(0, V)
    kv = c[:, None] * V + d
    S = tl.load(state + n * K * V + kv)
    for s in range(0, segments):
        place = (n * segments + s) * K * V + kv
        tl.store(before + place, S)         # before the segment writes
        S += tl.load(sums + place)
    tl.store(last + n * K * V + kv, S)


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


# --- q5: The size of a tile, the size of a chunk ---


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


def bytes_read(T, C, D):
    """What `attention` reads for one head, in bytes."""
    ends = [min(start + C, T) for start in range(0, T, C)]
    return 4 * D * (T + 2 * sum(ends))


def best_chunk(H, T, D, F, W, places, tau):
    """The fastest chunk of 16, 32, 64, 128, 256; the smallest of equals."""
    def seconds(C):
        operations = H * T * (4 * C * D + 4 * D**2) / F
        chain = math.ceil(H / places) * math.ceil(T / C) * tau
        return max(operations, 8 * H * T * D / W, chain)

    return min((16, 32, 64, 128, 256), key=seconds)


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


# --- q6: Against time ---


@triton.jit
def attention_backward(q, k, v, dout, dlast, dk, dv, dstate, T,
                       C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    """q, k, dk [N, T, K], v, dout, dv [N, T, V],
    dlast, dstate [N, K, V]; N programs."""
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.load(dlast + kv)             # gradient of the state after t
    for back in range(0, tl.cdiv(T, C)):
        t = (tl.cdiv(T, C) - 1 - back) * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        later = i[:, None] <= i                         # t >= j
        A = tl.dot(M, tl.trans(Q), input_precision="ieee")
        B = tl.dot(X, tl.trans(dO), input_precision="ieee")
        A, B = tl.where(later, A, 0.0), tl.where(later, B, 0.0)
        dX = tl.dot(A, dO, input_precision="ieee")
        dX += tl.dot(M, R, input_precision="ieee")
        dM = tl.dot(B, Q, input_precision="ieee")
        dM += tl.dot(X, tl.trans(R), input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
        R += tl.dot(tl.trans(Q), dO, input_precision="ieee")
    tl.store(dstate + kv, R)


@define_question(INFO["q6"], own_code=True, attention_backward=attention_backward)
def q6(rng):
    calls = []
    for n in range(9):
        N, K, V, C = int(rng.integers(1, 4)), *(int(rng.choice([16, 32])) for _ in range(3))
        T = int(rng.integers(1, 4 * C)) if rng.random() < 0.7 else C * int(rng.integers(1, 4))
        T = int(rng.integers(1, C)) if n == 0 else T
        if n == 2:  # the last token begins a chunk
            N, T = max(N, 2), 2 * C + 1
        if n == 1:  # more chunks than their width tells
            C, K, V = 16, 64, 64
            T = 2 * C + int(rng.integers(1, C))
        if n in (5, 6):  # whole chunks, and no two sizes the same
            N = max(N, 2)
            T, C, K, V = (32, 16, 32, 16) if n == 5 else (64, 64, 16, 32)
        if n == 4:  # a count of which Triton makes a constant
            T = 1
        if n == 3:  # the largest chunks
            C, T = 64, 64 + int(rng.integers(1, 32))
        if n == 8:  # more chunks than are written out one by one
            N, C, T = 1, 16, int(rng.integers(530, 600))
        q, k, v, dout = (_normal(rng, N, T, w, scale=w**-0.5) for w in (K, K, V, V))
        dlast = torch.zeros(N, K, V) if rng.random() < 0.2 and n < 5 else _normal(rng, N, K, V)
        if n == 3:  # numbers of another size
            q, k, v, dout, dlast = 10 * q, 10 * k, 10 * v, 30 * dout, 300 * dlast
        launch = plan((N,), (5, 6, 7), _order(rng))
        made = _nothing(N, T, K), _nothing(N, T, V), _nothing(N, K, V)
        text = f"{N} heads, T = {T}, C = {C}, K = {K}, V = {V}"
        one = T * (2 * K + 2 * V) + K * V
        bounds = {"loads": N * one, "busiest": one, "accesses": N * (16 * -(-T // 16) + 12), "widest": 4096}
        arguments = (launch, q, k, v, dout, dlast, *made, T, C, K, V)
        calls.append(Call("attention_backward", arguments, text, Close(3e-5), bounds=bounds))
    return calls


# --- q7: The delta rule, whole ---


@triton.jit
def delta_rule(q, k, v, beta, state, out, last, T,
               C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    """q, k [N, T, K], v, out [N, T, V], beta [N, T],
    state, last [N, K, V]; N programs."""
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


QUESTIONS = (q1, q2, q3, q4, q5, q6, q7,)
