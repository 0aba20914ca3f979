"""Known answers to question 2: one pass over a long row."""

import triton
import triton.language as tl

from linattn_exercises.known_mistakes import also_right, mistake


@mistake(
    "The last tile reads behind the end of its row: of the next row, and at the last one of nobody's memory. Mask what lies behind."
)
@triton.jit
def edge_unmasked(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column)
        new = tl.maximum(most, tl.max(s, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(most - safe) + tl.sum(tl.exp(s - safe), 0)
        most = new
    tl.store(out + row, most + tl.log(total))


@mistake(
    "What stands behind the end reads as 0, and e^0 counts. Let it read as what adds nothing: minus infinity."
)
@triton.jit
def zeros_behind_the_end(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=0.0)
        new = tl.maximum(most, tl.max(s, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(most - safe) + tl.sum(tl.exp(s - safe), 0)
        most = new
    tl.store(out + row, most + tl.log(total))


@mistake(
    "When the maximum rises, what has been added up belongs to the old one. Multiply it by e^(old - new)."
)
@triton.jit
def total_not_rescaled(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        new = tl.maximum(most, tl.max(s, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        total = total + tl.sum(tl.exp(s - safe), 0)
        most = new
    tl.store(out + row, most + tl.log(total))


@mistake(
    "The number that is subtracted is made finite, the maximum is not: after a tile of nothing but minus infinity it is still that. As 0 it hides all that lies far below 0."
)
@triton.jit
def zero_becomes_the_maximum(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        new = tl.maximum(most, tl.max(s, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(most - safe) + tl.sum(tl.exp(s - safe), 0)
        most = safe
    tl.store(out + row, most + tl.log(total))


@mistake(
    "The last tile begins where n_columns - 1 is a multiple of the tile, too, for one column. `range(0, n_columns, TILE)` comes to it."
)
@triton.jit
def last_column_lost(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns - 1, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        new = tl.maximum(most, tl.max(s, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(most - safe) + tl.sum(tl.exp(s - safe), 0)
        most = new
    tl.store(out + row, most + tl.log(total))


@mistake("An exponential that has been through half precision has 3 digits left. Add up in float32.")
@triton.jit
def exponentials_in_half_precision(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        new = tl.maximum(most, tl.max(s, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(most - safe) + tl.sum(tl.exp(s - safe).to(tl.float16).to(tl.float32), 0)
        most = new
    tl.store(out + row, most + tl.log(total))


@mistake(
    "The factor by which a larger maximum shrinks the sum has been through half precision, which keeps 3 digits."
)
@triton.jit
def fade_in_half_precision(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        new = tl.maximum(most, tl.max(s, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        fade = tl.exp(most - safe).to(tl.float16).to(tl.float32)
        total = total * fade + tl.sum(tl.exp(s - safe), 0)
        most = new
    tl.store(out + row, most + tl.log(total))


@mistake(
    "Each tile's own maximum is minus infinity where the tile is masked, and their difference is no number, also after tiles that have one."
)
@triton.jit
def maximum_of_each_tile(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        m = tl.max(s, 0)
        new = tl.maximum(most, m)
        if new > -float("inf"):
            total = total * tl.exp(most - new) + tl.exp(m - new) * tl.sum(tl.exp(s - m), 0)
            most = new
    tl.store(out + row, most + tl.log(total))


@mistake(
    "As long as a row shows nothing but minus infinity, so is the maximum, and their difference is no number. Subtract a finite number until there is one."
)
@triton.jit
def infinity_less_infinity(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        new = tl.maximum(most, tl.max(s, 0))
        total = total * tl.exp(most - new) + tl.sum(tl.exp(s - new), 0)
        most = new
    tl.store(out + row, most + tl.log(total))


@mistake(
    "A maximum that starts at 0 stays there where all entries are negative, and below -104 every exponential is 0 in float32. Start at minus infinity."
)
@triton.jit
def maximum_from_zero(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.zeros((), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        new = tl.maximum(most, tl.max(s, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(most - safe) + tl.sum(tl.exp(s - safe), 0)
        most = new
    tl.store(out + row, most + tl.log(total))


@mistake(
    "From e^89 on a sum of exponentials is infinite in float32. Subtract the largest entry so far before the exponential."
)
@triton.jit
def without_a_maximum(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        total += tl.sum(tl.exp(s), 0)
    tl.store(out + row, tl.log(total))


@mistake("What you took out of the exponentials is missing in the end: add the maximum to the logarithm.")
@triton.jit
def maximum_not_added(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        new = tl.maximum(most, tl.max(s, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(most - safe) + tl.sum(tl.exp(s - safe), 0)
        most = new
    tl.store(out + row, tl.log(total))


@mistake(
    "The numbers are right, but each row is read twice, once for its maximum and once for its sum. Keep both up to date in one pass."
)
@triton.jit
def two_passes(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        most = tl.maximum(most, tl.max(s, 0))
    safe = tl.where(most == -float("inf"), 0.0, most)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        total += tl.sum(tl.exp(s - safe), 0)
    tl.store(out + row, safe + tl.log(total))


@mistake("That is the first tile of each row. A row is longer: go over its tiles in a loop.")
@triton.jit
def first_tile_alone(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, TILE)
    s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
    most = tl.max(s, 0)
    safe = tl.where(most == -float("inf"), 0.0, most)
    tl.store(out + row, safe + tl.log(tl.sum(tl.exp(s - safe), 0)))


@mistake(
    "A kernel needs `@triton.jit` above it. Without that it is a function of Python, which gets tensors and no tiles."
)
def without_jit(x, out, n_columns, TILE):
    out[:] = x.logsumexp(-1)


@mistake("A tile of a fixed width ends before a long row does: go through the row, `TILE` columns at a time.")
@triton.jit
def in_one_wide_tile(x, out, n_columns, TILE: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, 4096)
    s = tl.load(x + r * n_columns + c, mask=c < n_columns, other=-float("inf"))
    peak = tl.max(s, 0)
    base = tl.where(peak > -float("inf"), peak, 0.0)
    tl.store(out + r, base + tl.log(tl.sum(tl.exp(s - base), 0)))


@mistake("Your sum counts the largest entry once, however often it stands there: each of them adds e^0.")
@triton.jit
def largest_counted_once(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        new = tl.maximum(most, tl.max(s, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        old = tl.where(new > most, total + tl.where(most == -float("inf"), 0.0, 1.0), total)
        total = old * tl.exp(most - safe) + tl.sum(tl.where(s < new, tl.exp(s - safe), 0.0), 0)
        most = new
    tl.store(out + row, most + tl.log(1.0 + total))


@also_right()
@triton.jit
def each_lane_its_own_maximum(x, out, n_columns, TILE: tl.constexpr):
    r = tl.program_id(0)
    peaks = tl.full((TILE,), float("-inf"), tl.float32)
    sums = tl.zeros((TILE,), tl.float32)
    for tile in range(tl.cdiv(n_columns, TILE)):
        c = tile * TILE + tl.arange(0, TILE)
        s = tl.load(x + r * n_columns + c, mask=c < n_columns, other=float("-inf"))
        higher = tl.maximum(peaks, s)
        base = tl.where(higher > float("-inf"), higher, 0.0)
        sums = sums * tl.exp(peaks - base) + tl.exp(s - base)
        peaks = higher
    peak = tl.max(peaks, 0)
    base = tl.where(peak > float("-inf"), peak, 0.0)
    tl.store(out + r, base + tl.log(tl.sum(sums * tl.exp(peaks - base), 0)))


@also_right()
@triton.jit
def from_a_finite_start(x, out, n_columns, TILE: tl.constexpr):
    x += tl.program_id(0) * n_columns
    m, total, start = -1e30, 0.0, 0
    while start < n_columns:
        i = start + tl.arange(0, TILE)
        s = tl.load(x + i, mask=i < n_columns, other=-float("inf")) * 1.4426950408889634
        new = tl.maximum(m, tl.max(s))
        total = total * tl.exp2(m - new) + tl.sum(tl.exp2(s - new))
        m = new
        start += TILE
    tl.store(out + tl.program_id(0), (m + tl.log2(total)) * 0.6931471805599453)


@mistake(
    "The old maximum is subtracted and the sum rescaled afterwards. Where the maximum jumps by more than 88 from one tile to the next, e^(s - old) is infinite. Subtract the new one."
)
@triton.jit
def old_maximum_subtracted(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    first = tl.load(
        x + row * n_columns + tl.arange(0, TILE), mask=tl.arange(0, TILE) < n_columns, other=-float("inf")
    )
    most = tl.max(first, 0)
    most = tl.where(most == -float("inf"), -1e30, most)
    total = tl.sum(tl.exp(first - most), 0)
    for start in range(TILE, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        new = tl.maximum(most, tl.max(s, 0))
        total = (total + tl.sum(tl.exp(s - most), 0)) * tl.exp(most - new)
        most = new
    tl.store(out + row, most + tl.log(total))


@mistake(
    "Terms far below the maximum are dropped. A thousand of them, each e^-12, are half a percent of the sum."
)
@triton.jit
def small_terms_dropped(x, out, n_columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    most = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, n_columns, TILE):
        column = start + tl.arange(0, TILE)
        s = tl.load(x + row * n_columns + column, mask=column < n_columns, other=-float("inf"))
        new = tl.maximum(most, tl.max(s, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)
        fade = tl.where(most < safe - 12.0, 0.0, tl.exp(most - safe))
        total = total * fade + tl.sum(tl.where(s < safe - 12.0, 0.0, tl.exp(s - safe)), 0)
        most = new
    tl.store(out + row, most + tl.log(total))
