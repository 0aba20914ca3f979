# %% [markdown] q4 derive, 4 points, 25 minutes, level 2
# ## How much is there to remember?
#
# A sequence begins with $n$ pairs. Their keys are $n$ different ones of `keys`, their values $n$ different ones of `values`. Afterwards
# *any* key may be asked for: the answer is its value, or "none" if the key was not among the pairs. The order of the pairs does not matter.
#
# 1. `bits(n, keys, values)`: how many bits must a memory have, for every question to be answered rightly whatever the pairs are?
#    That is the logarithm to base 2 of the number of cases that it has to tell apart, not rounded up. $n$ is known; it goes up to 30,000,
#    `keys` and `values` to $10^6$, whose factorials take too long.
# 2. `pairs(b, keys, values)`: the largest $n$, from 0 to half of `keys`, for which `b` bits are enough. `keys` is at most 20,000 here, `values` at
#    least half of it, and `b` is never within $10^{-5}$ of the bits of any number of pairs.
# 3. The chapter's recall has 127 keys and 128 values, and the state of TNL's two layers, of width 256 with heads of 16, has 8,192 numbers. How many bits
#    does each number have to carry for 64 pairs? (Four digits behind the point, at least.)

# %% answer q4
def bits(n, keys, values):
    """Bits that n pairs need at least."""
    # BEGIN SOLUTION
    def log_ratio(a, b):                     # of factorials, a! / b!
        return math.lgamma(a + 1) - math.lgamma(b + 1)

    which = log_ratio(keys, keys - n) - math.lgamma(n + 1)
    return (which + log_ratio(values, values - n)) / math.log(2)
    # END SOLUTION


def pairs(b, keys, values):
    """The most pairs, up to keys // 2, that b bits can hold."""
    # BEGIN SOLUTION
    low, high = 0, keys // 2                 # low fits
    while low < high:
        middle = (low + high + 1) // 2
        fits = bits(middle, keys, values) <= b
        low, high = (middle, high) if fits else (low, middle - 1)
    return low
    # END SOLUTION


bits_per_number = None
# BEGIN SOLUTION
bits_per_number = bits(64, 127, 128) / 8192
# END SOLUTION

# %% [markdown] solution q4
# Choose the keys, $\binom{\text{keys}}{n}$ ways, then give each a value: the first has all of `values`, the
# next one fewer, and so on. Two cases that differ must leave the memory in different states, since some key has another
# answer in one than in the other, and that key may be asked for. With $N$ keys and $M$ values that is
# $\log_2\binom{N}{n} + \log_2 \frac{M!}{(M-n)!}$, 543 bits for 64 pairs, or 0.066 bits for each of 8,192 numbers of 32 bits.
#
# The chapter's task asks for keys of the sequence alone, which needs less: with one pair it is enough to remember the value, and to say it
# whatever the question. For it 420 bits, those of the values, are a lower bound. Either way room for bits is not what is missing, by a factor of
# hundreds. What costs room is *how* a linear state stores: as a sum of outer products, which a matrix product has to read.
#
# (Counting ordered pairs, $n!$ times as many, counts what nobody asks for.)

# %% checks q4
@define_question(
    INFO["q4"],
    bits=bits,
    pairs=pairs,
    bits_per_number=bits_per_number,
    wrong_values={
        "bits_per_number": {
            bits(64, 127, 128): "Those are the bits of all 64 pairs. Divide by the numbers of the state.",
            8192 / bits(64, 127, 128): "That is the inverse: numbers for each bit.",
            bits(64, 127, 128) / 64: "Those are the bits of a pair.",
        }
    },
)
def q4(rng):
    exact, calls = Close(1e-9), []
    for n, keys, values in ((1, 10, 10), (0, 5, 9), (3, 7, 5), (6, 6, 9), (5, 9, 5)):
        calls.append(Call("bits", (n, keys, values), f"{n} pairs, {keys} keys, {values} values", exact))
    for n, keys, values in ((5, 25, 30), (60, 120, 110)):
        calls.append(Call("bits", (n, keys, values), f"{n} pairs, {keys} keys, {values} values", Close(1e-11)))
    for top in (100, 10_000, 1_000_000):
        keys, values = (int(x) for x in rng.integers(top // 2, top, 2))
        n = int(rng.integers(1, min(keys, values, 30_000)))  # more take math.comb and math.perm too long
        calls.append(Call("bits", (n, keys, values), f"{n:,} pairs, {keys:,} keys, {values:,} values", Close(1e-11) if n > 500 else exact))
    for top in (12, 80, 1000, 20_000):
        keys = int(rng.integers(top // 2, top))
        values = keys // 2 + int(rng.integers(1, top))
        n = int(rng.integers(1, keys // 2))
        for b in (bits(n, keys, values) + 1.1e-5, bits(n + 1, keys, values) - 1.1e-5):
            text = f"{b:.5f} bits, {keys:,} keys, {values:,} values"
            calls.append(Call("pairs", (b, keys, values), text, Exactly()))
    calls.append(Call("pairs", (0.5, 20, 20), "half a bit, 20 keys, 20 values", Exactly()))
    half = 2 * int(rng.integers(5, 15))              # half of the keys, even, odd and a half more
    for keys, values in ((2 * half + 1, half + 1), (2 * half, half), (2 * half + 2, half + 1), (2 * half + 3, half + 9)):
        calls.append(Call("pairs", (1e9, keys, values), f"a billion bits, {keys} keys, {values} values", Exactly()))
    for n in rng.integers(6, 10_000, 3).tolist():    # as many values as pairs: lgamma between whole numbers lies higher
        calls.append(Call("pairs", (bits(n, 2 * n, n) + 1.1e-5, 2 * n, n), f"just enough bits for {n:,} pairs, as many values", Exactly()))
    for _ in range(40):                              # one key or value on; no pairs, and as many as there can be
        keys, values = (10 ** rng.uniform(0, rng.choice((2.5, 6.0)), 2)).astype(int).tolist()
        most = min(keys, values, 30_000)
        n = int(rng.choice((0, 1, most - 1, most, rng.integers(most + 1))))
        calls.append(Call("bits", (n, keys, values), f"{n:,} pairs, {keys:,} keys, {values:,} values", Close(1e-8)))
        keys = int(10 ** rng.uniform(0, rng.choice((0.7, 3.0))))
        values, n = (keys + 1) // 2 + int(rng.choice((0, 1, keys // 2, 10 ** rng.uniform(0, 6)))), int(rng.integers(keys // 2 + 1))
        n = int(rng.choice((0, keys // 2, n)))
        low, high = bits(n, keys, values), bits(n + 1, keys, values) if n < keys // 2 else 1e9
        b = float(rng.choice((low + 1.1e-5, low + (0.1 + 0.8 * rng.random()) * (high - low), high - 1.1e-5)))
        calls.append(Call("pairs", (b, keys, values), f"{b:.5f} bits, {keys} keys, {values} values", Exactly()))
    calls.append(Call("bits", (30_000, 1_000_000, 1_000_000), "30,000 pairs, a million keys, a million values", Close(1e-11)))
    calls.append(Call("pairs", (1e9, 20_000, 10_000), "a billion bits, 20,000 keys, 10,000 values", Exactly()))
    calls.append(Call("bits_per_number", (), "", Close(5e-5)))
    return calls
