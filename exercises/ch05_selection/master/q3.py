# %% [markdown] q3 measure, 4 points, 30 minutes, level 3
# ## How large is a state, from outside?
#
# You are given one channel of a layer as a table: $o = Mx$ with $M$ lower triangular, $T \times T$, for
# one sequence, whose queries, keys and gates stay fixed while the channel's values $x$ vary. It may be softmax attention, a
# convolution, or a recurrence
#
# $$
# S_t = A_t S_{t-1} + b_t x_t, \qquad o_t = c_t S_{t-1} + d_t x_t
# $$
#
# with any gates $A_t$, numbers, vectors or matrices. Its state is what is handed from one token to the
# next. (A token's own input may reach its output directly. $o_t = c_tS_t$ is of this form: insert $S_t$.)
#
# 1. How many numbers must a recurrence of this form have in its state, at the least, to have this $M$?
#    They may be fewer at some places of the sequence; count them where they are most.
# 2. Suppose the state has only $n$ numbers. Then $M$ can only be approximated by some $\tilde M$. How
#    large must the error be for some input with $|x| = 1$? Give the bound $\max_x |Mx - \tilde Mx| \ge
#    \dots$ that you get from one place of the sequence, the place where it is largest; 0 if no place has
#    more than $n$ singular values, those of errors included. (Chapter 2 used that the best approximation
#    of rank $n$ is the one by singular values. It is so for this norm too, $\max_x |Mx|$: what it misses a
#    matrix by is singular value number $n+1$.)
#
# $M$ was measured, for at most 100 tokens, and is not 0 everywhere: each entry on and below the diagonal has an error of up to
# $10^{-6}$ of the largest entry of $M$. You can tell errors from the rest: in any block of $M$, singular values that come of
# errors alone lie below $10^{-5}$ of the largest entry of $M$; at some place where the state is largest, all others lie
# above $10^{-3}$ of it. (In 2, take $M$ as it was measured: leave the errors in.)
#
# Which part of $M$ says what the first $t$ tokens do to the others?

# %% answer q3
def state_size(M):
    """The numbers that a recurrence with this table [T, T] must hand on."""
    # BEGIN SOLUTION
    least = 1e-4 * M.abs().max()
    blocks = [M[t:, :t] for t in range(1, len(M))]
    sizes = [(torch.linalg.svdvals(x) > least).sum().item() for x in blocks]
    return max(sizes, default=0)
    # END SOLUTION


def least_error(M, n):
    """The error that a state of n numbers cannot avoid."""
    # BEGIN SOLUTION
    blocks = [M[t:, :t] for t in range(1, len(M))]
    values = [torch.linalg.svdvals(x) for x in blocks]
    return max((x[n].item() for x in values if len(x) > n), default=0.0)
    # END SOLUTION

# %% [markdown] solution q3
# What the first $t$ tokens do to the later outputs is the block $M_{t:,\,:t}$, below and left of the
# place between them. All of it passes through the state at that place: block = (what later tokens read of
# the state) times (what earlier ones left in it), a product through as many dimensions as the state has
# numbers. So the rank of the block is a lower bound. It is also enough: a recurrence with just that many
# numbers at each place always exists. Its state is what the block makes of the first $t$ inputs, in
# coordinates of the block's column space, and this and the next input give the next one by a linear map.
#
# The rank of $M$ itself says nothing. Its diagonal is what tokens do to themselves, and with a diagonal
# that is not 0 a triangular matrix has full rank, whatever the state is. One block in the middle may say
# too little: a gate that closes makes the block at that place 0.
#
# Softmax attention has blocks of full rank, so its state must grow with $T$, whatever one tries.
# Linear attention with $K$ channels has rank $K$ for one value channel, with scalar or vector gates; a
# state space model has the number of its real state numbers (a complex pair counts as two); a convolution
# over $w$ tokens has $w - 1$. The delta rule, which comes later in the chapter, has $K$, and with
# strengths of 1 and keys of length 1 only $K - 1$: along the key that comes, all is erased and need not
# be handed on.
#
# For 2., the blocks of $\tilde M$ have rank $n$ at most, and a matrix of rank $n$ is off from another by
# at least the singular value number $n+1$ of that one, for some input. An error of a block is an error of
# $M$. How fast these values fall is what a distillation of attention into a recurrence is up against,
# whatever the training.

# %% checks q3
def _gated(rng, T, K, reset=None, erase=False):
    """The table of linear attention with a gate for each channel, or of the delta rule."""
    q, k = (torch.from_numpy(rng.normal(size=(T, K))) for _ in range(2))
    k = k / k.norm(dim=1, keepdim=True)
    gates = torch.from_numpy(rng.uniform(0.85, 1.0, size=(T, K)))
    if reset is not None:
        gates[reset] = 0.0
    S, rows = torch.zeros(K, T, dtype=torch.float64), []  # what the state has of each input
    for t in range(T):
        S = gates[t][:, None] * S
        if erase:
            S = S - torch.outer(k[t], k[t] @ S)
        S[:, t] += k[t]
        rows.append(q[t] @ S)
    return torch.stack(rows)


def _filter(rng, T, taps):
    """The table of a convolution, whose first tap is a skip."""
    age = torch.arange(T)[:, None] - torch.arange(T)
    return taps[age.clamp(0, len(taps) - 1)] * ((age >= 0) & (age < len(taps)))


def _measure(rng, make, size, low=0.0, high=4.0, errors=(-1.0, 1.0)):
    """A table whose singular values are far from the threshold, scaled by 10^low to 10^high, with errors."""
    for _ in range(200):
        M = make()
        M = M / M.abs().max()
        values = [torch.linalg.svdvals(M[t:, :t]) for t in range(1, len(M))]
        if max((int((x > 1.01e-3).sum()) for x in values), default=0) == size:
            break
    else:
        raise RuntimeError(f"no table shows a state of {size}")
    M = 10 ** float(rng.uniform(low, high)) * M
    error = torch.from_numpy(rng.uniform(*errors, size=M.shape)).tril()
    return M + 1e-6 * M.abs().max() * error


@define_question(INFO["q3"], state_size=state_size, least_error=least_error)
def q3(rng):
    def softmax(T):
        x = torch.from_numpy(3 * rng.normal(size=(T, T)))
        return x.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf).softmax(1)

    def rotating(T):  # a complex pair and a real number, read together
        turn, age = rng.uniform(0.8, 2.0), torch.arange(T, dtype=torch.float64)
        taps = 0.97**age * (turn * age + rng.uniform(0, 3)).cos() + 0.9**age
        taps[0] = 3.0
        return _filter(rng, T, taps)

    def two_parts(first, second):
        M = _gated(rng, 24, max(first, second), 12)
        if first < second:
            M[:12, :12] = _gated(rng, 12, first)
        else:
            M[12:, 12:] = _gated(rng, 12, second)
        return M

    def briefly(size):  # 8 tokens in the middle, between closed gates, hand on more than the others
        return torch.block_diag(_gated(rng, 8, 2), _gated(rng, 8, size), _gated(rng, 14, 2))

    def early():  # only its first eighth hands on so much
        return torch.block_diag(_gated(rng, 8, 4), _gated(rng, 22, 2))

    def late():  # only the place before the last two tokens, an odd one, hands on so much
        return torch.block_diag(_gated(rng, 27, 1), _gated(rng, 4, 2))

    def neighbours(at):  # one token, and no other, reads what the one before it wrote
        M = torch.from_numpy(rng.uniform(1, 2, size=9)).diag()
        M[at, at - 1] = float(rng.uniform(1, 2))
        return M

    def silent():  # with nothing on the diagonal, in the first column and in the last row
        M = _gated(rng, 20, 3).tril(-1)
        M[:, 0], M[-1] = 0.0, 0.0
        return M

    def window(taps):
        return _filter(rng, 20, torch.from_numpy(rng.uniform(0.5, 1.0, size=taps)))

    def faint(T, low, high):  # one steady channel, and a second whose part is hardly above what counts
        near = 1 + 0.1 * torch.from_numpy(rng.uniform(-1, 1, size=(4, T)))
        near[2:, ::2] *= -1
        strong, weak = torch.outer(near[0], near[1]), 1e-4 * torch.outer(near[2], near[3])
        second = max(torch.linalg.svdvals((strong + weak)[t:, :t])[1].item() for t in range(2, T - 1))
        part = float(rng.uniform(low, high)) * strong.tril().max() / second
        return (strong + part * weak).tril()

    def loud(T):  # one entry, which no state is needed for, is by far the largest
        M, at = _gated(rng, T, 2), draw(0, T - 1)
        M = M / M.abs().max()
        M[at, at] = 100.0
        return M

    def apart():  # four tokens write, and far behind each of four others reads all of that
        M = torch.from_numpy(rng.uniform(1, 2, size=100)).diag()
        M[67:98:10, :31:10] = torch.from_numpy(rng.normal(size=(4, 4)))
        return M

    def offside(mirrored):  # what is handed on lies in no square that has its corner on the diagonal
        M = torch.from_numpy(rng.uniform(1, 2, size=40)).diag()
        M[[6, 9, 13, 19], [0, 1, 2, 3]] = torch.from_numpy(rng.uniform(1, 2, size=4))
        return M.flip(0, 1).T if mirrored else M

    def again():  # three are handed on, then for many tokens nothing, then five
        M = torch.from_numpy(rng.uniform(1, 2, size=100)).diag()
        M[[6, 10, 14], [0, 1, 2]] = 1.0
        M[range(75, 80), range(65, 70)] = torch.from_numpy(rng.uniform(1, 2, size=5))
        return M

    def bridged(mirrored):  # two are read far away, and three others next to one end
        M = torch.from_numpy(rng.uniform(1, 2, size=100)).diag()
        M[[97, 98, 8, 9, 10], [0, 1, 2, 3, 4]] = torch.from_numpy(rng.uniform(1, 2, size=5))
        return M.flip(0, 1).T if mirrored else M

    def all_at_once(n):  # n tokens write, and n others read, each another mixture of them
        M = torch.from_numpy(rng.uniform(1, 2, size=80)).diag()
        M[-n:, :n] = torch.linalg.qr(torch.from_numpy(rng.normal(size=(n, n))))[0]
        return M

    def draw(low, high):
        return int(rng.integers(low, high + 1))

    K, wide, erased, taps = draw(12, 15), draw(2, 4), draw(3, 5), draw(4, 6)
    small, large, brief, many = draw(1, 2), draw(3, 5), draw(3, 4), draw(24, 30)
    short, middle, long = (2 * draw(*ends) for ends in ((4, 5), (6, 8), (9, 10)))
    tables = (
        (lambda: _gated(rng, 24, wide), wide, f"24 tokens of linear attention, K = {wide}"),
        (lambda: _gated(rng, 44, K), K, f"44 tokens of linear attention, K = {K}"),
        (lambda: _gated(rng, 30, erased, erase=True), erased - 1, f"30 tokens of the delta rule, K = {erased}, strengths of 1"),
        (lambda: rotating(30), 3, "30 tokens of a filter of three rates, two of them a complex pair, and a skip"),
        *((lambda T=T: softmax(T), T // 2, f"{T} tokens of softmax attention") for T in (short, middle, long)),
        (lambda: two_parts(small, large), large, f"24 tokens, K = {small}, then {large} channels that start with a closed gate"),
        (lambda: two_parts(large, small), large, f"24 tokens, K = {large}, then {small} that start with a closed gate"),
        (lambda: briefly(brief), brief, f"30 tokens, K = 2, but {brief} channels for tokens 9 to 16, between closed gates"),
        (early, 4, "30 tokens, 4 channels for the first 8, then a closed gate and 2"),
        (late, 2, "31 tokens, one channel, then a closed gate and 2 for the last 4"),
        (lambda: -window(taps), taps - 1, f"20 tokens of a convolution over {taps}, no entry above 0"),
        (lambda: torch.from_numpy(rng.uniform(1, 2, size=(2, 2))).tril(), 1, "2 tokens"),
        (silent, 3, "20 tokens that do not reach their own outputs; the first writes and the last reads nothing"),
        (lambda: torch.tensor([[2.0]], dtype=torch.float64), 0, "a single token"),
        (lambda: torch.from_numpy(rng.uniform(1, 2, size=9)).diag(), 0, "9 tokens that do nothing to each other"),
        (lambda: neighbours(1), 1, "9 tokens, of which the second reads the first, no other any"),
        (lambda: neighbours(8), 1, "9 tokens, of which the last reads the one before it, no other any"),
        (apart, 4, "100 tokens, four of which are read, each by four others far from it"),
        (lambda: offside(False), 4, "40 tokens, the first four of which are read, at different distances"),
        (lambda: offside(True), 4, "40 tokens, the last four of which read one of the others each"),
        (again, 5, "100 tokens, 3 of which are read, and 5 long after that"),
        (lambda: bridged(False), 5, "100 tokens, two of which are read far away, three nearer by"),
        (lambda: bridged(True), 5, "100 tokens, two of which read far back, three nearer by"),
        (lambda: all_at_once(many), many, f"80 tokens, {many} of which are read by {many} others, mixed"),
        (lambda: faint(12, 1.02e-3, 1.04e-3), 2, "12 tokens of two channels, one of them faint"),
        (lambda: faint(100, 1.02e-3, 1.04e-3), 2, "100 tokens of two channels, one of them faint"),
        (lambda: loud(100), 2, "100 tokens of two channels, one token loud to itself"),
    )
    calls = []
    for number, at in enumerate(rng.permutation(len(tables))):
        make, size, inputs = tables[at]
        scale = (-8.0, -5.0) if number % 2 else (0.0, 4.0)
        calls.append(Call("state_size", (_measure(rng, make, size, *scale),), inputs, Close(1e-9)))
    idle = _measure(rng, lambda: torch.from_numpy(rng.uniform(1, 2, size=19)).diag(), 0, errors=(0.97, 1.0))
    calls.append(Call("state_size", (idle,), "19 tokens that do nothing to each other, errors of one sign", Close(1e-9)))
    for entry in (2.3e-5, 5e-4):  # each entry by itself is next to nothing, and a block of them is not
        shared = float(rng.uniform(1, 1.04)) * entry * torch.ones(100, 100).double().tril(-1)
        M = _measure(rng, lambda: torch.eye(100).double() + shared, 1)
        calls.append(Call("state_size", (M,), f"100 tokens that do hardly anything to each other, {entry:g} each", Close(1e-9)))
    for number, at in enumerate(rng.permutation(len(tables) - 2)):  # of other tables: n is no hint at the size of one above
        make, size, inputs = tables[at]
        n = draw(0, max(size - 1, 0))
        scale, how = ((-8.0, -5.0), Within(1 + 1e-6)) if number % 2 and size else ((0.0, 4.0), Close(1e-5))
        calls.append(Call("least_error", (_measure(rng, make, size, *scale), n), f"{inputs}; n = {n}", how))
    for at in (0, *rng.permutation(len(tables) - 2)[:8]):  # so large that errors are seen, where n is no less than the size
        make, size, inputs = tables[at]
        M = _measure(rng, make, size, 4.0)
        for n in (size, size + draw(1, 3)):
            calls.append(Call("least_error", (M, n), f"{inputs}; n = {n}", Close(1e-3)))
    M = _measure(rng, lambda: _gated(rng, 30, wide), wide, -8.0, -7.0)
    calls.append(Call("least_error", (M, wide), f"30 tokens of linear attention, K = {wide}; n = {wide}", Within(1.001)))
    M = _measure(rng, lambda: _gated(rng, 30, wide), wide, 4.0)
    for n in (13, 14):  # no more than errors, and small ones of them
        calls.append(Call("least_error", (M, n), f"30 tokens of linear attention, K = {wide}; n = {n}", Close(1e-3)))
    for T, n in ((10, 4), (10, 5), (9, 4), (9, 5), (10, draw(6, 8))):  # no block has more than half of T
        calls.append(Call("least_error", (softmax(T), n), f"{T} tokens of softmax attention; n = {n}"))
    diagonal = torch.from_numpy(rng.uniform(1, 2, size=9)).diag()
    return [*calls, Call("least_error", (diagonal, 12), "9 tokens that do nothing to each other, n = 12")]
