"""Known answers to question 6: against time."""

import triton
import triton.language as tl

from linattn_exercises.known_mistakes import also_right, mistake


@mistake(
    "Your loop runs with time. What a token has written is read by later ones, so their gradients come first: begin with the last chunk."
)
@triton.jit
def with_time(q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.load(dlast + kv)
    for back in range(0, tl.cdiv(T, C)):
        t = back * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        later = i[:, None] <= i
        A = tl.where(later, tl.dot(M, tl.trans(Q), input_precision="ieee"), 0.0)
        B = tl.where(later, tl.dot(X, tl.trans(dO), input_precision="ieee"), 0.0)
        dX = tl.dot(A, dO, input_precision="ieee")
        dX += tl.dot(M, R, input_precision="ieee")
        dM = tl.dot(B, Q, input_precision="ieee")
        dM += tl.dot(X, tl.trans(R), input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
        R += tl.dot(tl.trans(Q), dO, input_precision="ieee")
    tl.store(dstate + kv, R)


@mistake("The last state has a gradient of its own: `dlast` is where the sum over later tokens begins.")
@triton.jit
def last_state_forgotten(
    q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.zeros((K, V), tl.float32)
    for back in range(0, tl.cdiv(T, C)):
        t = (tl.cdiv(T, C) - 1 - back) * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        later = i[:, None] <= i
        A = tl.where(later, tl.dot(M, tl.trans(Q), input_precision="ieee"), 0.0)
        B = tl.where(later, tl.dot(X, tl.trans(dO), input_precision="ieee"), 0.0)
        dX = tl.dot(A, dO, input_precision="ieee")
        dX += tl.dot(M, R, input_precision="ieee")
        dM = tl.dot(B, Q, input_precision="ieee")
        dM += tl.dot(X, tl.trans(R), input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
        R += tl.dot(tl.trans(Q), dO, input_precision="ieee")
    tl.store(dstate + kv, R)


@mistake("The two tables are swapped: dv takes the weights k.q, and dk the products v.do.")
@triton.jit
def tables_swapped(
    q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.load(dlast + kv)
    for back in range(0, tl.cdiv(T, C)):
        t = (tl.cdiv(T, C) - 1 - back) * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        later = i[:, None] <= i
        A = tl.where(later, tl.dot(M, tl.trans(Q), input_precision="ieee"), 0.0)
        B = tl.where(later, tl.dot(X, tl.trans(dO), input_precision="ieee"), 0.0)
        dX = tl.dot(B, dO, input_precision="ieee")
        dX += tl.dot(M, R, input_precision="ieee")
        dM = tl.dot(A, Q, input_precision="ieee")
        dM += tl.dot(X, tl.trans(R), input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
        R += tl.dot(tl.trans(Q), dO, input_precision="ieee")
    tl.store(dstate + kv, R)


@mistake(
    "The mask is that of the forward. Here rows are tokens that write, and those that read them are later: the other triangle."
)
@triton.jit
def mask_of_the_forward(
    q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.load(dlast + kv)
    for back in range(0, tl.cdiv(T, C)):
        t = (tl.cdiv(T, C) - 1 - back) * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        later = i[:, None] >= i
        A = tl.where(later, tl.dot(M, tl.trans(Q), input_precision="ieee"), 0.0)
        B = tl.where(later, tl.dot(X, tl.trans(dO), input_precision="ieee"), 0.0)
        dX = tl.dot(A, dO, input_precision="ieee")
        dX += tl.dot(M, R, input_precision="ieee")
        dM = tl.dot(B, Q, input_precision="ieee")
        dM += tl.dot(X, tl.trans(R), input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
        R += tl.dot(tl.trans(Q), dO, input_precision="ieee")
    tl.store(dstate + kv, R)


@mistake("Your mask hides the token itself. In the forward it reads what it has just written.")
@triton.jit
def itself_hidden(q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.load(dlast + kv)
    for back in range(0, tl.cdiv(T, C)):
        t = (tl.cdiv(T, C) - 1 - back) * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        later = i[:, None] < i
        A = tl.where(later, tl.dot(M, tl.trans(Q), input_precision="ieee"), 0.0)
        B = tl.where(later, tl.dot(X, tl.trans(dO), input_precision="ieee"), 0.0)
        dX = tl.dot(A, dO, input_precision="ieee")
        dX += tl.dot(M, R, input_precision="ieee")
        dM = tl.dot(B, Q, input_precision="ieee")
        dM += tl.dot(X, tl.trans(R), input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
        R += tl.dot(tl.trans(Q), dO, input_precision="ieee")
    tl.store(dstate + kv, R)


@mistake(
    "Queries of a chunk are in the state before its tokens use it, and then in the table once more. Bring the state up to date at the end."
)
@triton.jit
def updated_before_use(
    q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.load(dlast + kv)
    for back in range(0, tl.cdiv(T, C)):
        t = (tl.cdiv(T, C) - 1 - back) * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        later = i[:, None] <= i
        A = tl.where(later, tl.dot(M, tl.trans(Q), input_precision="ieee"), 0.0)
        B = tl.where(later, tl.dot(X, tl.trans(dO), input_precision="ieee"), 0.0)
        R += tl.dot(tl.trans(Q), dO, input_precision="ieee")
        dX = tl.dot(A, dO, input_precision="ieee")
        dX += tl.dot(M, R, input_precision="ieee")
        dM = tl.dot(B, Q, input_precision="ieee")
        dM += tl.dot(X, tl.trans(R), input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
    tl.store(dstate + kv, R)


@mistake(
    "`dstate` receives the gradient of the state after the first chunk. What the first chunk reads is still to be added."
)
@triton.jit
def stored_before_the_update(
    q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.load(dlast + kv)
    for back in range(0, tl.cdiv(T, C)):
        t = (tl.cdiv(T, C) - 1 - back) * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        later = i[:, None] <= i
        A = tl.where(later, tl.dot(M, tl.trans(Q), input_precision="ieee"), 0.0)
        B = tl.where(later, tl.dot(X, tl.trans(dO), input_precision="ieee"), 0.0)
        tl.store(dstate + kv, R)
        dX = tl.dot(A, dO, input_precision="ieee")
        dX += tl.dot(M, R, input_precision="ieee")
        dM = tl.dot(B, Q, input_precision="ieee")
        dM += tl.dot(X, tl.trans(R), input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
        R += tl.dot(tl.trans(Q), dO, input_precision="ieee")


@mistake(
    "The gradient of the state never grows: what a chunk reads, q^T do, has to be added for the chunks before it."
)
@triton.jit
def never_updated(q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.load(dlast + kv)
    for back in range(0, tl.cdiv(T, C)):
        t = (tl.cdiv(T, C) - 1 - back) * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        later = i[:, None] <= i
        A = tl.where(later, tl.dot(M, tl.trans(Q), input_precision="ieee"), 0.0)
        B = tl.where(later, tl.dot(X, tl.trans(dO), input_precision="ieee"), 0.0)
        dX = tl.dot(A, dO, input_precision="ieee")
        dX += tl.dot(M, R, input_precision="ieee")
        dM = tl.dot(B, Q, input_precision="ieee")
        dM += tl.dot(X, tl.trans(R), input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
    tl.store(dstate + kv, R)


@mistake(
    "A token's write reaches the later chunks too, through the gradient of the state: k R and v R^T are missing."
)
@triton.jit
def own_chunk_alone(
    q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.load(dlast + kv)
    for back in range(0, tl.cdiv(T, C)):
        t = (tl.cdiv(T, C) - 1 - back) * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        later = i[:, None] <= i
        A = tl.where(later, tl.dot(M, tl.trans(Q), input_precision="ieee"), 0.0)
        B = tl.where(later, tl.dot(X, tl.trans(dO), input_precision="ieee"), 0.0)
        dX = tl.dot(A, dO, input_precision="ieee")
        dM = tl.dot(B, Q, input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
        R += tl.dot(tl.trans(Q), dO, input_precision="ieee")
    tl.store(dstate + kv, R)


@mistake(
    "Half precision for a tile: it keeps three digits of what is loaded. Compute in float32, as the tensors are."
)
@triton.jit
def values_in_half_precision(
    q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.load(dlast + kv)
    for back in range(0, tl.cdiv(T, C)):
        t = (tl.cdiv(T, C) - 1 - back) * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0).to(tl.float16).to(tl.float32)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        later = i[:, None] <= i
        A = tl.where(later, tl.dot(M, tl.trans(Q), input_precision="ieee"), 0.0)
        B = tl.where(later, tl.dot(X, tl.trans(dO), input_precision="ieee"), 0.0)
        dX = tl.dot(A, dO, input_precision="ieee")
        dX += tl.dot(M, R, input_precision="ieee")
        dM = tl.dot(B, Q, input_precision="ieee")
        dM += tl.dot(X, tl.trans(R), input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
        R += tl.dot(tl.trans(Q), dO, input_precision="ieee")
    tl.store(dstate + kv, R)


@mistake(
    "The last chunk may be shorter, and `dout` is read behind the end of the sequence. Mask it as the other inputs."
)
@triton.jit
def gradient_unmasked(
    q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.load(dlast + kv)
    for back in range(0, tl.cdiv(T, C)):
        t = (tl.cdiv(T, C) - 1 - back) * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d)
        later = i[:, None] <= i
        A = tl.where(later, tl.dot(M, tl.trans(Q), input_precision="ieee"), 0.0)
        B = tl.where(later, tl.dot(X, tl.trans(dO), input_precision="ieee"), 0.0)
        dX = tl.dot(A, dO, input_precision="ieee")
        dX += tl.dot(M, R, input_precision="ieee")
        dM = tl.dot(B, Q, input_precision="ieee")
        dM += tl.dot(X, tl.trans(R), input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
        R += tl.dot(tl.trans(Q), dO, input_precision="ieee")
    tl.store(dstate + kv, R)


@mistake(
    "The numbers are right, but q and dout are read a second time for the state. Their tiles are still there."
)
@triton.jit
def read_twice(q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    kv = n * K * V + c[:, None] * V + d
    R = tl.load(dlast + kv)
    for back in range(0, tl.cdiv(T, C)):
        t = (tl.cdiv(T, C) - 1 - back) * C + i
        inside = (t < T)[:, None]
        row = (n * T + t)[:, None]
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        M = tl.load(k + row * K + c, mask=inside, other=0.0)
        X = tl.load(v + row * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        later = i[:, None] <= i
        A = tl.where(later, tl.dot(M, tl.trans(Q), input_precision="ieee"), 0.0)
        B = tl.where(later, tl.dot(X, tl.trans(dO), input_precision="ieee"), 0.0)
        dX = tl.dot(A, dO, input_precision="ieee")
        dX += tl.dot(M, R, input_precision="ieee")
        dM = tl.dot(B, Q, input_precision="ieee")
        dM += tl.dot(X, tl.trans(R), input_precision="ieee")
        tl.store(dv + row * V + d, dX, mask=inside)
        tl.store(dk + row * K + c, dM, mask=inside)
        Q = tl.load(q + row * K + c, mask=inside, other=0.0)
        dO = tl.load(dout + row * V + d, mask=inside, other=0.0)
        R += tl.dot(tl.trans(Q), dO, input_precision="ieee")
    tl.store(dstate + kv, R)


@also_right()
@triton.jit
def cut_from_the_end(
    q, k, v, dout, dlast, dk, dv, dstate, T, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    n = tl.program_id(0)
    i, c, d = tl.arange(0, C), tl.arange(0, K)[None, :], tl.arange(0, V)[None, :]
    kv = n * K * V + tl.arange(0, K)[:, None] * V + d
    R = tl.load(dlast + kv)
    end = T
    while end > 0:
        t = end - C + i
        inside = t[:, None] >= 0
        here = (n * T + t)[:, None]
        Q = tl.load(q + here * K + c, mask=inside, other=0.0)
        M = tl.load(k + here * K + c, mask=inside, other=0.0)
        X = tl.load(v + here * V + d, mask=inside, other=0.0)
        dO = tl.load(dout + here * V + d, mask=inside, other=0.0)
        causal = (i[:, None] >= i[None, :]).to(tl.float32)
        weights = causal * tl.dot(Q, tl.trans(M), input_precision="ieee")
        dweights = causal * tl.dot(dO, tl.trans(X), input_precision="ieee")
        dX = tl.dot(tl.trans(weights), dO, tl.dot(M, R, input_precision="ieee"), input_precision="ieee")
        tl.store(dv + here * V + d, dX, mask=inside)
        dM = tl.dot(X, tl.trans(R), input_precision="ieee")
        dM = tl.dot(tl.trans(dweights), Q, dM, input_precision="ieee")
        tl.store(dk + here * K + c, dM, mask=inside)
        R = tl.dot(tl.trans(Q), dO, R, input_precision="ieee")
        end -= C
    tl.store(dstate + kv, R)
