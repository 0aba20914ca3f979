# %% [markdown] q6 implement, 5 points, 35 minutes, level 3
# ## Against time
#
# Write the backward of the kernel in [exercise 6.3](ex-ch06-q3) without decay: from $\partial\mathcal L/\partial o_t$ (`dout`) and the gradient of the last state
# (`dlast`), the gradients of $k$, $v$ and the start state. (That of $q$ goes along time, as the forward does.) The forward has kept nothing. Each input is read once,
# and no tensor of the size of the states between chunks is written.

# %% answer q6
@triton.jit
def attention_backward(q, k, v, dout, dlast, dk, dv, dstate, T,
                       C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    """q, k, dk [N, T, K], v, dout, dv [N, T, V],
    dlast, dstate [N, K, V]; N programs."""
    # BEGIN SOLUTION
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
    # END SOLUTION

# %% [markdown] solution q6
# Let $R_j$ be what token $j$ and those after it send back to the state: $R_j = R_{j+1} + q_j^\top do_j$, from `dlast` behind the last token. Token $j$ wrote $k_j^\top v_j$ into a state
# that is read at $j$ too, so $dv_j = k_j R_j$ and $dk_j = v_j R_j^\top$: linear attention again,
# against time. Start from the *last chunk as the forward cut it*, the short one; cutting anew from
# the end is as right, but then the first chunk is the one with a mask. What is left in $R$ after the first token is the gradient of the start state.

# %% checks q6
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
