# %% [markdown] q1 implement, 5 points, 30 minutes, level 2
# ## Where a deficit sits
#
# The chapter calls a byte *repeated* if it completes a string of $n$ bytes that has already occurred. Some of
# the other bytes are worse than new: the $n-1$ bytes before them *have* occurred, but never went on with this
# one. Who copies is wrong there. Call them *misleading*.
#
# 1. `repeated(text, n)`: for each byte whether it completes a string of `n` bytes that ends at some earlier
#    byte, too. The two may overlap.
# 2. `misleading(text, n)`: for each byte whether the `n - 1` bytes before it have occurred earlier, followed
#    by some byte, but never by this one. (The first $n-1$ bytes are neither.)
# 3. `share(mine, theirs, where)`: what part of the difference between two models' total losses sits on the
#    bytes where `where` is true. It is below 0 or above 1 where the rest of the difference has the other sign.
#
# `text` is an array of 1 to 9,500 whole numbers from 0 to 255 (int64); comparing all pairs of places in a loop takes too
# long; `n` is 2 or more. Losses are arrays with an entry for each byte.

# %% answer q1
def repeated(text, n):
    """Truth values [T]: has the string that ends here occurred?"""
    # BEGIN SOLUTION
    text = text.tolist()
    seen, found = set(), np.zeros(len(text), bool)
    for t in range(n - 1, len(text)):
        string = tuple(text[t - n + 1 : t + 1])
        found[t] = string in seen
        seen.add(string)
    return found
    # END SOLUTION


def misleading(text, n):
    """Truth values [T]: is what stood before known, but not this?"""
    # BEGIN SOLUTION
    text = text.tolist()
    starts, strings = set(), set()
    found = np.zeros(len(text), bool)
    for t in range(n - 1, len(text)):
        string = tuple(text[t - n + 1 : t + 1])
        start = string[:-1]
        found[t] = start in starts and string not in strings
        starts.add(start)
        strings.add(string)
    return found
    # END SOLUTION


def share(mine, theirs, where):
    """The part of the difference in total loss that is at those bytes."""
    # BEGIN SOLUTION
    more = np.asarray(mine) - np.asarray(theirs)
    return float(more[where].sum() / more.sum())
    # END SOLUTION

# %% [markdown] solution q1
# One pass with a set does: by the time byte $t$ is looked at, the set holds all strings that end before it.
# Adding the string *before* looking would call every byte repeated. A run such as `aaaa` repeats itself at
# a distance of one byte, overlapping: a model that copies gets it right, so it counts.
#
# After the first few every byte is repeated, misleading, or has a beginning that is new. A model that copies
# mostly gains on the first kind and pays on the second; that is the trade. For the share one sums losses, not means:
# a quarter of the bytes can hold 60 % of the difference, and the means of both kinds, 0.238 against 0.128 and 0.711
# against 0.686 in the chapter, do not say so until each is multiplied by the number of its bytes.

# %% checks q1
def _text(rng, T, letters):
    """Random bytes, passages of which come again, some with one byte changed."""
    text = rng.integers(0, 256, letters)[rng.integers(0, letters, T)]
    for _ in range(T // 40):
        length = int(rng.integers(5, 25))
        if 2 * length < T:
            start, end = (int(x) for x in rng.integers(0, T - length, 2))
            text[end : end + length] = text[start : start + length].copy()
    return text


# To the base of 256 and of 257 these are 10^9 + 7, 10^9 + 9, 998,244,353, 2^31 - 1 and, of eight digits, 2^61 - 1;
# to that of 1000 they are the first, to that of 263 the first two.
_DIGITS = [
    [59, 154, 202, 7], [58, 234, 70, 157], [59, 154, 202, 9], [58, 234, 70, 159], [59, 128, 0, 1], [58, 207, 178, 70],
    [127, 255, 255, 255], [126, 131, 126, 128], [1, 0, 0, 7], [54, 255, 90, 104], [54, 255, 90, 106], [31] + [255] * 7, [31, 35, 153, 169, 89, 99, 223, 224],
]


@define_question(INFO["q1"], repeated=repeated, misleading=misleading, share=share)
def q1(rng):
    calls = []
    for T, letters, n in ((60, 3, 3), (200, 8, 4), (7, 2, 9), (300, 200, 9), (120, 2, 2), (400, 3, 5), (9_500, 40, 9)):
        arguments = (_text(rng, T, letters), n)
        text = f"{T:,} bytes, n = {n}"
        calls.append(Call("repeated", arguments, text))
        calls.append(Call("misleading", arguments, text))
    every = rng.integers(0, 256, 9_500)              # has both of two strings such as 1, 12 and 11, 2
    every[-9:] = every[:9]
    for name in ("repeated", "misleading"):
        calls.append(Call(name, (every, 2), "9,500 bytes of all values, n = 2"))
    run = [int(rng.integers(0, 256))] * 12
    calls.append(Call("repeated", (np.array(run), 4), "twelve times the same byte, n = 4"))
    calls.append(Call("misleading", (np.array([*run, (run[0] + 1) % 256, run[0], run[0]]), 3), "one byte that breaks a run, n = 3"))
    calls.append(Call("misleading", (np.array([*run, (run[0] + 1) % 256]), 3), "one byte that breaks a run, the last, n = 3"))
    a, b = (int(x) for x in rng.permutation(256)[:2])
    for n in (3, 4, 6):                              # what stood before is known as soon as can be, and overlaps itself
        calls.append(Call("misleading", (np.array([a] * n + [b]), n), f"{n} equal bytes and another, n = {n}"))
    calls.append(Call("misleading", (np.array([a, b, a, b, a, a]), 4), "two bytes in turns, and one of them twice, n = 4"))
    for few in ([1, 3, 0, 3, 1, 0], [0, 1, 3, 1, 0]):  # of three letters: 3 * 0 + 3 is 3 * 1 + 0, from either end
        for name in ("repeated", "misleading"):
            calls.append(Call(name, (np.array(few), 2), f"{len(few)} bytes, 3 letters, n = 2"))
    odd = np.array([n.bit_count() % 2 for n in range(1024)])  # by no polynomial modulo a power of 2 is it another than its complement
    turns = np.where(np.append(odd, 1 - odd), a, b)
    calls.append(Call("repeated", (turns, 1024), "2,048 bytes of two letters, n = 1,024"))
    ends = np.insert(np.append(turns, (a + b + 1) % 256), 1024, (a + b) % 256)
    calls.append(Call("misleading", (ends, 1025), "2,050 bytes, most of them of two letters, n = 1,025"))
    for n, digits in ((4, _DIGITS[:-2]), (8, _DIGITS[-2:])):  # strings that have the hash of n zeros
        for turn in (1, -1):
            same = [d[::turn] for d in digits]
            other = [[*d[:-1], (d[-1] + 1) % 256, *d] for d in same]
            for name, strings in (("repeated", same), ("misleading", other)):
                alike_in_hash = np.concatenate([np.zeros(n, int), *strings])
                calls.append(Call(name, (alike_in_hash, n), f"n = {n}, strings that are alike in a hash"))
    twin = [1, 150, 48, 7, 119]                      # zlib.crc32 takes it for five zeros
    for name, rest in (("repeated", twin), ("misleading", [*twin[:-1], 0, *twin])):
        calls.append(Call(name, (np.array([0] * 5 + rest), 5), "n = 5, two strings with the same checksum"))
    once, n = rng.integers(0, 256, 200), int(rng.integers(30, 60))
    again = once.copy()
    again[[120, 119 + n]] ^= 1                       # before the latter n - 2 bytes are known, and no more
    for name in ("repeated", "misleading"):
        calls.append(Call(name, (np.append(once, again), n), f"200 bytes, and again with two changed, n = {n}"))
    once, n = rng.integers(0, 256, 1_500), int(rng.integers(1_100, 1_300))  # more than numpy writes out
    again = once.copy()
    again[int(rng.integers(600, 900))] ^= 1
    for name in ("repeated", "misleading"):
        calls.append(Call(name, (np.append(once, again), n), f"1,500 bytes, and again with one changed, n = {n:,}"))
    last = int(rng.integers(n, 1_500))               # a string ends here; one byte of its beginning is another, too
    for place, where in ((last - n + 1, "first"), (last - int(rng.integers(n // 4, n - n // 4)), "middle"), (last - 1, "last")):
        again = once.copy()
        again[[place, last]] ^= 1
        arguments = (np.append(once, again), n)
        calls.append(Call("misleading", arguments, f"1,500 bytes, and again with two changed, the {where} of n - 1 and the next, n = {n:,}"))
    for T, part, there, elsewhere in (
        (50, 0.3, 0.4, 0.1),
        (400, 0.1, 0.4, 0.1),
        (400, 0.8, 0.4, 0.1),
        (300, 0.4, -0.4, -0.1),  # the first model is better, on both kinds
        (300, 0.5, 0.8, -0.3),
        (300, 0.5, -0.3, 0.8),
    ):
        where = rng.random(T) < part
        theirs = rng.gamma(1.0, 1.0, T)
        mine = theirs + np.where(where, there, elsewhere) + 0.2 * rng.normal(size=T)
        text = f"{T} bytes, {where.mean():.0%} of them repeated, differences near {there} and {elsewhere}"
        calls.append(Call("share", (mine, theirs, where), text, Close(1e-9)))
    for power in (-3.3, -5.4, -8.4, -12.4):          # next to nothing, and not nothing
        more = 10 ** float(rng.uniform(power - 0.6, power))
        alike = np.array([0.5 + more]), np.array([0.5]), np.array([True])
        calls.append(Call("share", alike, f"one byte, repeated, a difference of {more:.2g}", Close(1e-9)))
    for high, low in ((5e-15, 0.0), (3e-16, 1e-16), (5e-17, 0.0)):
        alike = np.array([high]), np.array([low]), np.array([True])
        calls.append(Call("share", alike, f"one byte, repeated, losses of {high:.2g} and {low:.2g}", Close(1e-9)))
    for every in (True, False):
        text = f"300 bytes, {'all' if every else 'none'} of them repeated"
        calls.append(Call("share", (mine, theirs, np.full(len(mine), every)), text, Close(1e-9)))
    for _ in range(100):                             # short texts of few letters, 0 and 255 among them; n may exceed their length
        letters = rng.permutation([0, 255, *rng.integers(1, 255, 3)])[: rng.integers(1, 6)]
        n = int(rng.integers(2, rng.choice((3, 5, 8))))
        written = np.resize(rng.choice(letters, int(rng.integers(1, 12))), int(rng.integers(1, rng.choice((5, 30)))))
        written[rng.random(len(written)) < rng.choice((0.0, 0.2))] = letters[0]
        for name in ("repeated", "misleading"):
            calls.append(Call(name, (written, n), f"{len(written)} bytes, {len(letters)} letters, n = {n}"))
    for of, (low, high) in ((250, (61, 200)), (80, (1_001, 1_050))):  # long strings that come again, up to the last byte
        n = int(rng.integers(low, high))
        bytes_ = np.resize(rng.integers(0, 256, of), of + max(n + 20, of))
        calls.append(Call("repeated", (bytes_, n), f"the same {of} bytes over and over, n = {n:,}"))
        bytes_ = bytes_.copy()
        bytes_[-1] ^= 1
        calls.append(Call("misleading", (bytes_, n), f"the same {of} bytes over and over, the last one changed, n = {n:,}"))
    for _ in range(60):                              # differences of 0, losses of 0 in one model or both
        T = int(rng.integers(1, rng.choice((5, 30))))
        mine, theirs = 10 ** rng.uniform(-1, 2) * rng.gamma(1.0, 1.0, (2, T)) * (rng.random((2, T)) < rng.choice((0.5, 1.0)))
        mine = np.where(rng.random(T) < rng.choice((0.0, 0.3)), theirs, mine)
        one = int(rng.integers(T))
        least = max(float(10 ** rng.uniform(-4, 0)), 1e-4 * float((mine + theirs).sum()))  # digits enough are left of it
        mine[one] += max(least, least - (mine - theirs).sum())  # more in all, if little
        losses = (mine, theirs) if rng.random() < 0.5 else (theirs, mine)
        calls.append(Call("share", (*losses, rng.random(T) < rng.random()), f"{T} bytes, some losses are 0 or equal", Close(1e-9)))
    return calls
