# %% [markdown] q2 implement, 4 points, 25 minutes, level 2
# ## One pass over a long row
#
# Write a kernel that returns $\ell_r = \ln \sum_c e^{x_{rc}}$ for each row of a matrix. Program $r$ has row $r$, which has
# any number of columns, often more than a tile, and is read only once. Entries may be as large as $3\cdot 10^4$ of either sign, and $-\infty$ (a
# masked score); a row of nothing but $-\infty$ has $\ell = -\infty$. Terms below $10^{-8}$ of a row's largest do not matter, however many there are.

# %% answer q2
@triton.jit
def row_logsumexp(x, out, n_columns, TILE: tl.constexpr):
    """x [rows, n_columns], out [rows]; as many programs as rows."""
    # BEGIN SOLUTION
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
    # END SOLUTION

# %% [markdown] solution q2
# The running maximum of chapter 1, and three edges. Columns behind the end must not be read, and what stands in their place is $-\infty$, not 0: a zero adds
# $e^{0 - m}$ to every row and, where all entries are negative, is the maximum. As long as nothing but $-\infty$ has been seen, $m = -\infty$
# and $e^{m - m}$ is NaN; so a finite number is subtracted until there is a maximum. A causal row never meets that, as its first
# tile has a key that it sees; the first tiles of a sliding window may all be masked.

# %% checks q2
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
