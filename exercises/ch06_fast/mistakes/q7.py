"""Known answers to question 7: the delta rule, whole."""

import triton
import triton.language as tl

from linattn_exercises.known_mistakes import also_right, mistake


@also_right()
@triton.jit
def row_by_row(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i < r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U - known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "Right on paper: A is nilpotent. With keys that are alike the powers of A grow to binomial coefficients, which cancel, and float32 has 7 digits. Merge blocks, or go row by row."
)
@triton.jit
def series_of_powers(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        P = tl.where(i[:, None] > i, -A, 0.0)
        R = tl.where(i[:, None] == i, 1.0, P)
        done = 2
        while done < C:
            P = tl.dot(P, P, input_precision="ieee")
            R += tl.dot(R, P, input_precision="ieee")
            done *= 2
        U = tl.dot(R, U, input_precision="ieee")
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "What the state holds is forgotten: a token writes what its key does *not* recall yet, beta (v - k S)."
)
@triton.jit
def state_not_recalled(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * X
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i < r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U - known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("The sign: (I + A) U = b (V - K S), so what the tokens before have written is subtracted.")
@triton.jit
def sign_of_the_correction(
    q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i < r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U + known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("beta stands at the columns of A. It is token i, which writes, whose beta counts: it scales rows.")
@triton.jit
def beta_of_columns(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = tl.trans(b) * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i < r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U - known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("beta is missing in A: what a token takes back is scaled by it as what it writes.")
@triton.jit
def table_without_beta(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i < r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U - known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("beta is missing on the right: what is written is scaled by it, too.")
@triton.jit
def values_not_scaled(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = X - tl.dot(M, S, input_precision="ieee")
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i < r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U - known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("A token does not correct itself: A has zeros on its diagonal.")
@triton.jit
def diagonal_counted(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i <= r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U - known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "A first correction is not all: the tokens before have been corrected themselves. U stands on both sides."
)
@triton.jit
def one_correction(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        A = tl.where(i[:, None] > i, A, 0.0)
        U -= tl.dot(A, U, input_precision="ieee")
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "Within a chunk the tokens do not see each other's writes here: that is linear attention with other values."
)
@triton.jit
def no_correction(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("A token reads after it has written: its own write belongs to its output, on the diagonal.")
@triton.jit
def own_write_not_read(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i < r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U - known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] > i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("The old state is read after the chunk has written to it, so its writes count twice.")
@triton.jit
def state_updated_too_early(
    q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i < r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U - known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
    tl.store(last + kv, S)


@mistake("The outputs read the values as they came. What was written is U.")
@triton.jit
def values_read_uncorrected(
    q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i < r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U - known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, b * X, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake(
    "Half precision for a tile: it keeps three digits of what is loaded. Compute in float32, as the tensors are."
)
@triton.jit
def values_in_half(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0).to(tl.float16).to(tl.float32)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i < r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U - known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("It reads behind the end of beta. Give that load a mask, too.")
@triton.jit
def beta_unmasked(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t)[:, None]
        A = b * tl.dot(M, tl.trans(M), input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i < r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U - known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)


@mistake("Right, but the keys are read twice. Keep the tile, and transpose it.")
@triton.jit
def keys_read_twice(q, k, v, beta, state, out, last, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    S = tl.load(state + kv)
    for start in range(0, T, C):
        t = start + i
        row, inside = (n * T + t)[:, None], (t < T)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        b = tl.load(beta + n * T + t, mask=t < T, other=0.0)[:, None]
        across = tl.load(k + (n * T + t) * K + c[:, None], mask=t < T, other=0.0)
        A = b * tl.dot(M, across, input_precision="ieee")
        U = b * (X - tl.dot(M, S, input_precision="ieee"))
        for r in range(1, C):
            here = i[:, None] == r
            a = tl.sum(tl.where(here, A, 0.0), 0)
            a = tl.where(i < r, a, 0.0)
            known = tl.sum(a[:, None] * U, 0)
            U = tl.where(here, U - known[None, :], U)
        P = tl.dot(Q, tl.trans(M), input_precision="ieee")
        P = tl.where(i[:, None] >= i, P, 0.0)
        o = tl.dot(Q, S, input_precision="ieee") + tl.dot(P, U, input_precision="ieee")
        tl.store(out + row * V + d, o, mask=inside)
        S += tl.dot(tl.trans(M), U, input_precision="ieee")
    tl.store(last + kv, S)
