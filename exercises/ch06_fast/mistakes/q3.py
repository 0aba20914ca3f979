"""Known answers to question 3: forget, inside the kernel."""

import triton
import triton.language as tl

from linattn_exercises.known_mistakes import also_right, mistake


@mistake(
    "The state that a chunk begins with is read as it was. Token i reads it through e^(g_1 + ... + g_i)."
)
@triton.jit
def start_state_not_decayed(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "Off by one where a chunk begins: its first token decays the old state before it writes, so its own decay counts for what it reads."
)
@triton.jit
def exclusive_at_the_start(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G - g)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "Off by one where a chunk ends: a token's own decay comes before its write, so the last token's write is not decayed."
)
@triton.jit
def inclusive_at_the_end(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G + g)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "The old state is handed on as if one token had passed. All decays of the chunk act on it, one after the other: their exponents add."
)
@triton.jit
def decayed_once_a_chunk(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        one = tl.sum(tl.where(i == 0, g, 0.0), 0)
        S = tl.exp(one) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("The old state is handed on without decay. A chunk multiplies it by e to the sum of its exponents.")
@triton.jit
def state_never_decayed(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "What a chunk writes is handed on as it was written. Token j's write waits until the end of the chunk, through e^(G_C - G_j)."
)
@triton.jit
def keys_not_decayed(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "Above the diagonal the exponent is positive, the exponential infinite, and infinity times 0 is no number. Mask the exponent, not the result."
)
@triton.jit
def mask_after_the_exponential(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(G[:, None] - G)
        A = A * past.to(tl.float32)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "Right on paper. Where much is forgotten, e^G is 0 and e^-G infinite: form G_i - G_j before the exponential."
)
@triton.jit
def exponent_in_two_factors(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        A = tl.dot(Q * tl.exp(G)[:, None], tl.trans(M * tl.exp(-G)[:, None]), input_precision="ieee")
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "Float64 moves the limit from e^89 to e^710, and 64 tokens that forget everything add up to e^2560. Form G_i - G_j before the exponential."
)
@triton.jit
def factors_in_float64(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        wide = G.to(tl.float64)
        middle = tl.sum(g, 0).to(tl.float64) / 2
        weight = tl.exp(wide - middle)[:, None] * tl.exp(middle - wide)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * weight.to(tl.float32)
        A = tl.where(i[:, None] >= i, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("The table inside of a chunk has no decay. Token j reaches token i through e^(G_i - G_j).")
@triton.jit
def table_without_decay(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        A = tl.dot(Q, tl.trans(M), input_precision="ieee")
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "The sign of G_i - G_j says what comes later only where something is forgotten: with g = 0 in between it is 0 both ways. Compare places."
)
@triton.jit
def masked_by_the_exponent(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        gap = G[:, None] - G
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(tl.minimum(gap, 0.0))
        A = tl.where(gap <= 0, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("Your mask hides the token itself. It writes before it reads.")
@triton.jit
def itself_hidden(q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] > i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("The state is brought up to date before the chunk reads it, so tokens read what comes after them.")
@triton.jit
def updated_before_reading(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        whole = tl.sum(g, 0)
        late = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(late), X, input_precision="ieee")
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
    tl.store(last + kv, S)


@mistake(
    "Half precision for a tile: it keeps three digits of what is loaded. Compute in float32, as the tensors are."
)
@triton.jit
def tiles_in_half_precision(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0).to(tl.float16).to(tl.float32)
        M = tl.load(k + row * K + c, mask=inside, other=0.0).to(tl.float16).to(tl.float32)
        X = tl.load(v + row * V + d, mask=inside, other=0.0).to(tl.float16).to(tl.float32)
        g = tl.load(log_decay + n * T + t, mask=t < T, other=0.0)
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "An exponent that has been through half precision is off by a thousandth, and so is its exponential."
)
@triton.jit
def exponents_in_half_precision(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp((whole - G).to(tl.float16).to(tl.float32))[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "A weight that has been through half precision is off by up to one part in 2,000. Keep the table in float32."
)
@triton.jit
def weights_in_half_precision(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap).to(tl.float16)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("`last` receives the state that the last chunk has begun with. Store it after the update.")
@triton.jit
def stored_before_the_update(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        tl.store(last + kv, S)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")


@mistake(
    "Behind the end of the sequence nothing is forgotten: there a decay reads as 0, not as minus infinity."
)
@triton.jit
def forgets_behind_the_end(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        g = tl.load(log_decay + n * T + t, mask=t < T, other=-float("inf"))
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "The last chunk may be shorter, and its decays are read behind the end of the sequence. Mask them as the other inputs."
)
@triton.jit
def decay_unmasked(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        g = tl.load(log_decay + n * T + t)
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "The numbers are right, but the keys are read a second time for the state. The tile of them is still there."
)
@triton.jit
def keys_read_twice(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@also_right()
@triton.jit
def decays_of_powers_of_two(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        g = tl.load(log_decay + n * T + t, mask=t < T, other=0.0) * 1.4426950408889634
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        gap = tl.where(past, G[:, None] - G, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp2(gap)
        A = tl.where(past, A, 0.0)
        o = tl.exp2(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp2(whole - G)[:, None]
        S = tl.exp2(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)


@also_right()
@triton.jit
def decay_by_a_table_of_sums(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d[None, :]
    S = tl.load(state + kv)
    start = 0
    while start < T:
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c[None, :], mask=inside, other=0.0)
        M = tl.load(k + row * K + c[None, :], mask=inside, other=0.0)
        X = tl.load(v + row * V + d[None, :], mask=inside, other=0.0)
        g = tl.load(log_decay + n * T + t, mask=t < T, other=0.0)
        between = tl.where(i[:, None] > i[None, :], tl.broadcast_to(g[:, None], (C, C)), 0.0)
        weight = tl.exp(tl.cumsum(between, 0))
        weight = tl.where(i[:, None] >= i[None, :], weight, 0.0)
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * weight
        faded = Q * tl.exp(tl.cumsum(g, 0))[:, None]
        o = tl.dot(A, X, tl.dot(faded, S, input_precision="ieee"), input_precision="ieee")
        tl.store(out + row * V + d[None, :], o, mask=inside)
        rest = tl.exp(tl.cumsum(g, 0, reverse=True) - g)
        S = S * tl.exp(tl.sum(g, 0)) + tl.dot(tl.trans(M * rest[:, None]), X, input_precision="ieee")
        start += C
    tl.store(last + kv, S)


@also_right()
@triton.jit
def selected_after_the_exponential(
    q, k, v, log_decay, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
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
        G = tl.cumsum(g, 0)
        past = i[:, None] >= i
        A = tl.dot(Q, tl.trans(M), input_precision="ieee") * tl.exp(G[:, None] - G)
        A = tl.where(past, A, 0.0)
        o = tl.exp(G)[:, None] * tl.dot(Q, S, input_precision="ieee")
        o += tl.dot(A, X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        whole = tl.sum(g, 0)
        M = M * tl.exp(whole - G)[:, None]
        S = tl.exp(whole) * S
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    tl.store(last + kv, S)
