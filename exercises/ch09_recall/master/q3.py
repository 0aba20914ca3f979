# %% [markdown] q3 measure, 4 points, 20 minutes, level 1
# ## What a right digit costs
#
# A model of bytes is asked for a needle of six digits. Its loss on them has two parts: it must know *that* a
# digit comes, and *which*. With $p(x)$ its probability of the byte $x$, and $p(\text{digit})$ that of any of the ten,
#
# $$
# -\log p(x) = \underbrace{-\log p(\text{digit})}_{\text{form}} + \underbrace{-\log p(x \mid \text{digit})}_{\text{choice}}.
# $$
#
# You get `logits` [needles, 6, 256] and `digits` [needles, 6], whole numbers from 0 to 9. The digit $d$ is the byte
# $48 + d$.
#
# 1. `split_cost(logits, digits)`: the mean of each part, in nats. Logits go up to $\pm 2{,}000$.
# 2. `found(logits, digits)`: the share of needles all of whose digits are right, if a digit is right when its byte has the
#    largest logit of all.
# 3. `found_if_told(logits, digits)`: the same if the model is told that a digit comes, so that a digit is right when
#    its byte has the largest logit of the ten. In neither case do two bytes share the largest.

# %% answer q3
def split_cost(logits, digits):
    """(form, choice): means over all digits, in nats."""
    # BEGIN SOLUTION
    def log_sum(x):                          # of exponentials
        top = x.max(-1, keepdims=True)
        return np.log(np.exp(x - top).sum(-1)) + top[..., 0]

    ten = logits[..., 48:58]
    right = np.take_along_axis(ten, digits[..., None], -1)[..., 0]
    form = log_sum(logits) - log_sum(ten)
    return float(form.mean()), float((log_sum(ten) - right).mean())
    # END SOLUTION


def found(logits, digits):
    """The share of needles that a greedy model finds."""
    # BEGIN SOLUTION
    return float((logits.argmax(-1) == 48 + digits).all(-1).mean())
    # END SOLUTION


def found_if_told(logits, digits):
    """The same if only digits may be said."""
    # BEGIN SOLUTION
    return float((logits[..., 48:58].argmax(-1) == digits).all(-1).mean())
    # END SOLUTION

# %% [markdown] solution q3
# Both parts are differences of two log-sums, so no probability has to be formed that would underflow. (A form of 3 nats
# means that the model gives all ten digits together 5 %.)
#
# The chapter's linear models that were not trained on needles pay 3.7 to 5.9 nats for a digit, and a guess among ten costs
# $\log 10 = 2.3$. The rest may be form, or a choice that is confident and wrong, which has no upper end: the sum of
# the two does not tell. A choice *below* $\log 10$ shows that a model has kept something of the needle, though it finds none.
# `found_if_told` takes the form out of the test as well, but needs all six to be right, and guessing finds one needle in a million.

# %% checks q3
COMPARED = {"split_cost": Close(1e-9), "found": Close(1e-6), "found_if_told": Close(1e-6)}


@define_question(INFO["q3"], split_cost=split_cost, found=found, found_if_told=found_if_told)
def q3(rng):
    share, calls = Close(1e-6), []
    for needles, form, keen, text in (
        (4, 0.0, 0.0, "logits at random"),
        (20, -3.0, 6.0, "digits are rare, and the right one is likely among them"),
        (20, 6.0, 5.0, "digits are likely, and the right one most of all"),
        (1, 2.0, 1.0, "one needle"),
        (16, 1500.0, 7.0, "logits near 1,500"),
        (16, -1500.0, 7.0, "digits' logits near -1,500"),
    ):
        digits = rng.integers(0, 10, (needles, 6))
        logits = rng.normal(size=(needles, 6, 256))
        logits[..., 48:58] += form
        likely = rng.random((needles, 6)) < 0.93
        np.put_along_axis(logits, 48 + digits[..., None], np.take_along_axis(logits, 48 + digits[..., None], -1) + keen * likely[..., None], -1)
        for name, how in COMPARED.items():
            calls.append(Call(name, (logits, digits), f"{needles} needles, {text}", how))
    digits = rng.permuted(np.tile(np.arange(10), (8, 1)), axis=1)[:, :6]
    said = digits.copy()
    swapped = int(rng.integers(2, 7))
    said[:swapped, :2] = digits[:swapped, 1::-1]
    digits[6:, :2] = rng.integers(1, 9, (2, 2))      # the last two: other bytes that make up the same number,
    said[6:] = digits[6:] + np.array([[10, -1, 0, 0, 0, 0], [-1, 10, 0, 0, 0, 0]])  # from either end
    logits = rng.normal(size=(8, 6, 256))
    np.put_along_axis(logits, 48 + said[..., None], 9.0, -1)
    for name in ("found", "found_if_told"):
        calls.append(Call(name, (logits, digits), "8 needles, two digits swapped, or one lower by 1 and one higher by 10", share))
    right = int(rng.integers(4, 9))                  # then six have another byte at a place, six another digit
    digits = rng.integers(0, 10, (12 + right, 6))
    logits = rng.normal(size=(12 + right, 6, 256))
    np.put_along_axis(logits, 48 + digits[..., None], 5.5, -1)
    place, other = np.arange(6), rng.integers((0, 10, 58, 128, 200, 255), (10, 48, 128, 200, 255, 256))
    other[0] = 0                                     # the first byte of all, which a slice may leave out
    logits[place, place, rng.permutation(other)] = 8.0
    logits[6 + place, place, 48 + (digits[6 + place, place] + rng.integers(1, 10, 6)) % 10] = 8.0
    for name in ("found", "found_if_told"):
        calls.append(Call(name, (logits, digits), f"{12 + right} needles, a wrong byte in 12 of them", share))
    right = int(rng.integers(4, 9))                  # then eight say a byte that is like the digit in some way
    digits = rng.integers(0, 10, (8 + right, 6))
    digits[:2, 0] = 0, 9                             # 0 and 9 for all below 48, and above 57
    at = np.arange(8), rng.integers(0, 6, 8)         # needle and place
    at[1][:2] = 0
    said = 48 + digits
    said[at] += np.array([-1, 1, -10, 10, -32, -16, 16, 128])  # the last digit, or some of the bits
    said[0, 0] = rng.choice((32, 43))                # a space or a sign: the number is the same without the 0
    logits = rng.normal(size=(8 + right, 6, 256))
    np.put_along_axis(logits, said[..., None], 9.0, -1)
    for name in ("found", "found_if_told"):
        calls.append(Call(name, (logits, digits), f"{8 + right} needles, in 8 of them a byte that is like the digit", share))
    right = int(rng.integers(4, 9))                  # then fourteen whose text is a number, too, or whose digits have the same sum
    digits = rng.integers(0, 10, (14 + right, 6))
    digits[:8, 0], digits[7, 1], digits[13, [2, 4]] = 0, 0, rng.integers(1, 9, 2)
    said = 48 + digits
    said[:7, 0] = 9, 10, 11, 12, 13, 32, 43          # white space or a sign in place of a 0 in front
    said[7, 1] = ord("_")
    odd = np.arange(8, 13), rng.integers(0, 6, 5)
    said[odd] = 178, 179, 185, 188, 190              # small 2, 3 and 9; fractions
    digits[odd] = 2, 3, 9, 0, 5
    said[13, [2, 4]] += 1, -1
    logits = rng.normal(size=(14 + right, 6, 256))
    np.put_along_axis(logits, said[..., None], 9.0, -1)
    for name in ("found", "found_if_told"):
        calls.append(Call(name, (logits, digits), f"{14 + right} needles, in 14 of them a text that is much like the number", share))
    digits = rng.permuted(np.tile(np.arange(10), (8, 1)), axis=1)[:, :6]
    digits[[1, 3]] = digits[[0, 2]]                  # two are asked for twice; in the last two each other is said
    said = digits[[0, 1, 2, 3, 4, 5, 7, 6]]
    said[3, 0] = (said[3, 0] + 1) % 10               # of one pair only one is found
    logits = rng.normal(size=(8, 6, 256))
    np.put_along_axis(logits, 48 + said[..., None], 9.0, -1)
    for name in ("found", "found_if_told"):
        calls.append(Call(name, (logits, digits), "8 needles, some of them alike, two said in exchange", share))
    digits = rng.integers(0, 10, (8, 6))             # far up, where a rival of a digit is hardly above it, or hardly below
    digits[:, 2] = rng.integers(1, 9, 8)
    logits = rng.normal(size=(8, 6, 256)) + 1_985
    own = 48 + digits
    np.put_along_axis(logits, own[..., None], 1_995.0, -1)
    for sign, name in ((-1, "found"), (1, "found"), (-1, "found_if_told"), (1, "found_if_told")):  # all are found, or none is; a tie would go to the lower byte
        rival = own[:, 2] + sign * rng.integers(1, np.where(sign > 0, 10 - digits[:, 2], digits[:, 2] + 1))
        near = logits.copy()
        gap = 10 ** rng.uniform(-9, -5, 8)
        gap[:2] = 10 ** rng.uniform(-11, -10.5, 2) if name == "found" else 10 ** rng.uniform(-10.6, -10.4, 2)
        near[np.arange(8), 2, rival] += 1_995.0 + sign * gap - near[np.arange(8), 2, rival]
        calls.append(Call(name, (near, digits), "8 needles, a digit that is nearly as likely as the right one", share))
    for sign in (-1, 1):                             # and near 0, where a hair is finer
        digits = rng.integers(0, 10, (4, 6))
        digits[:, 2] = rng.integers(1, 9, 4)
        logits, own = rng.uniform(-3, 0.9, (4, 6, 256)), 48 + digits
        np.put_along_axis(logits, own[..., None], 1.0, -1)
        rival = own[:, 2] + sign * rng.integers(1, np.where(sign > 0, 10 - digits[:, 2], digits[:, 2] + 1))
        logits[np.arange(4), 2, rival] = 1.0 + sign * rng.uniform(0.6e-13, 1e-13, 4)
        for name in ("found", "found_if_told"):
            calls.append(Call(name, (logits, digits), "4 needles, logits of 1, a digit that is nearly as likely as the right one", share))
    for needles in (1, 3):
        digits = rng.integers(0, 10, (needles, 6))
        level = rng.permuted(np.tile((-1_990.0, -900, 0, 500, 1_300, 1_990), (needles, 1)), axis=1)
        for logits, text in (
            (level[..., None] + rng.normal(size=(needles, 6, 256)), "logits of each digit near another number"),
            (rng.uniform(-1_999, 1_999, (needles, 6, 256)), "logits anywhere from -2,000 to 2,000"),
        ):
            told = np.where(np.arange(needles)[:, None] % 2, logits.min() - 0.5, logits.max(-1) + 0.5)  # every other one is found
            np.put_along_axis(logits, 48 + digits[..., None], told[..., None], -1)
            for name, how in COMPARED.items():
                calls.append(Call(name, (logits, digits), f"{needles} needles, {text}", how))
    digits = rng.integers(0, 10, (6, 6))             # digits low and all else high: more than 2,000 apart
    logits = rng.normal(size=(6, 6, 256)) + 1_900
    logits[..., 48:58] -= 3_800
    right = int(rng.integers(2, 5))
    np.put_along_axis(logits[:right], 48 + digits[:right, :, None], -1_890.0, -1)
    for name, how in COMPARED.items():
        calls.append(Call(name, (logits, digits), "6 needles, digits' logits near -1,900, all others near 1,900", how))
    for _ in range(12):                              # logits far apart or near each other, on any level, to the ends of their range
        needles = int(rng.integers(1, 6))
        digits = rng.integers(0, 10, (needles, 6))
        logits = 10 ** rng.uniform(-2, 2) * rng.normal(size=(needles, 6, 256))
        logits[..., 48:58] += rng.uniform(-10, 10)
        top = np.where(rng.random(needles) < 0.5, logits.max((1, 2)), logits[..., 48:58].max((1, 2)))[:, None] + 0.1
        right = (rng.random((needles, 1)) < 0.5) | (rng.random((needles, 6)) < 0.8)
        own = np.take_along_axis(logits, 48 + digits[..., None], -1)
        np.put_along_axis(logits, 48 + digits[..., None], np.where(right, top, own[..., 0])[..., None], -1)
        logits += rng.choice((rng.uniform(-1_400, 1_400), 2_000 - logits.max(), -2_000 - logits.min()))
        logits[..., rng.integers(0, 48, rng.integers(3))] = -2_000.0
        for name, how in COMPARED.items():
            calls.append(Call(name, (logits, digits), f"{needles} needles, logits from {logits.min():.5g} to {logits.max():.5g}", how))
    return calls
