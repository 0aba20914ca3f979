# %% [markdown] q2 derive, 4 points, 25 minutes, level 2
# ## How much is there to remember?
#
# A sequence of multi-query recall begins with $n$ pairs. Their keys are $n$ different ones of `keys`, their
# values $n$ different ones of `values`, all equally likely. Afterwards each key is asked for once, in an order
# that nobody knows; the order of the pairs does not matter.
#
# 1. `bits(n, keys, values)`: how many bits must a memory have at least, for every question to be answered
#    rightly whatever the pairs are? That is the logarithm to base 2 of the number of cases that it has to tell apart
#    (not rounded up). Numbers go up to $10^6$.
# 2. `pairs(b, keys, values)`: the largest $n$, at most half of `keys`, for which `b` bits are enough. `values` is at least
#    half of `keys` here.
# 3. The chapter's recall has 127 keys and 128 values, and the state of TNL with heads of 16 has 8,192 numbers. How many bits does
#    each number have to carry for 64 pairs?

# %% answer q2
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

# %% [markdown] solution q2
# Choose the keys, $\binom{\text{keys}}{n}$ ways, then give each a value: the first has all of `values`, the
# next one fewer, and so on. Two cases that differ in any pair must leave the memory in different states, since the
# question for that pair may come. That is $\log_2\binom{K}{n} + \log_2 \frac{V!}{(V-n)!}$, 543 bits for
# 64 pairs, or 0.066 bits for each of 8,192 numbers of 32 bits. Room is not what is missing, by a factor of nearly 500.
# What costs room is *how* a linear state stores: as a sum of outer products, from which a matrix product
# has to read. That is chapter 2's bound, $K$ pairs a head, and it is no bound of information.
#
# (Counting ordered pairs, $n!$ times as many, counts what nobody asks for.)

# %% checks q2
@define_question(
    INFO["q2"],
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
def q2(rng):
    exact, calls = Close(1e-9), []
    for n, keys, values in ((1, 10, 10), (0, 5, 9), (3, 7, 5), (6, 6, 9), (5, 9, 5)):
        calls.append(Call("bits", (n, keys, values), f"{n} pairs, {keys} keys, {values} values", exact))
    for top in (100, 10_000, 1_000_000):
        keys, values = (int(x) for x in rng.integers(top // 2, top, 2))
        n = int(rng.integers(1, min(keys, values)))
        calls.append(Call("bits", (n, keys, values), f"{n:,} pairs, {keys:,} keys, {values:,} values", exact))
    for top in (12, 80, 1000, 100_000):
        keys = int(rng.integers(top // 2, top))
        values = keys // 2 + int(rng.integers(1, top))
        n = int(rng.integers(1, keys // 2))
        b = (bits(n, keys, values) + bits(n + 1, keys, values)) / 2
        calls.append(Call("pairs", (b, keys, values), f"{b:.1f} bits, {keys:,} keys, {values:,} values", Exactly()))
    calls.append(Call("pairs", (0.5, 20, 20), "half a bit, 20 keys, 20 values", Exactly()))
    calls.append(Call("pairs", (1e9, 20, 20), "a billion bits, 20 keys, 20 values", Exactly()))
    calls.append(Call("bits_per_number", (), "", Close(1e-5)))
    return calls
