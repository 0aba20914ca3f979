"""Checks of ``ch09_recall``, generated from master/*.py by ``make exercises``: edit those."""


import math

import numpy as np


from functools import partial

from linattn_exercises.calls import Call
from linattn_exercises.comparison import Close, Difference, Exactly, Judged, as_numbers
from linattn_exercises.questions import QuestionInfo, define_question


VERSION = "7cda693a0407"
INFO = {
    "q1": QuestionInfo(
        "ch09_recall", "q1", 'Where a deficit sits',
        "implement", points=5, minutes=30, level=2,
    ),
    "q2": QuestionInfo(
        "ch09_recall", "q2", 'Which of four copies?',
        "diagnose", points=4, minutes=20, level=2,
    ),
    "q3": QuestionInfo(
        "ch09_recall", "q3", 'What a right digit costs',
        "measure", points=4, minutes=20, level=1,
    ),
    "q4": QuestionInfo(
        "ch09_recall", "q4", 'How much is there to remember?',
        "derive", points=4, minutes=25, level=2,
    ),
    "q5": QuestionInfo(
        "ch09_recall", "q5", 'A task that a state cannot solve',
        "derive", points=6, minutes=45, level=3,
    ),
}


# --- q1: Where a deficit sits ---


def repeated(text, n):
    """Truth values [T]: has the string that ends here occurred?"""
    text = text.tolist()
    seen, found = set(), np.zeros(len(text), bool)
    for t in range(n - 1, len(text)):
        string = tuple(text[t - n + 1 : t + 1])
        found[t] = string in seen
        seen.add(string)
    return found


def misleading(text, n):
    """Truth values [T]: is what stood before known, but not this?"""
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


def share(mine, theirs, where):
    """The part of the difference in total loss that is at those bytes."""
    more = np.asarray(mine) - np.asarray(theirs)
    return float(more[where].sum() / more.sum())


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


# --- q2: Which of four copies? ---


def copying(other, shuffled, second):
    """Share of the loss saved by the order of the words, [4]."""
    return 1 - second.mean(1) / shuffled.mean(1)


def adapting(other, shuffled, second):
    """Share of the loss saved by knowing the words, [4]."""
    return 1 - shuffled.mean(1) / other.mean(1)


def which(other, shuffled, second):
    """The index of the model that copies."""
    return int(copying(other, shuffled, second).argmax())


def _any_models(rng):
    """Losses of four models on a passage of one byte on; some are 0, effects are of either sign."""
    T, copier = int(rng.integers(1, rng.choice((6, 60)))), int(rng.integers(4))
    rows = rng.gamma(0.5, 2.0, (3, 4, T)) * (rng.random((3, 4, T)) < rng.choice((0.5, 1.0)))
    rows[1:] = rows[1:] if rng.random() < 0.5 else rows[0]
    rows[..., rng.integers(T)] += 0.1
    knows, copies = rng.uniform((-1.6, -1.6), (0.95, 0.05), (4, 2)).T
    copies[copier] = rng.uniform(0.1, 1.0)
    least = rng.choice((-2.0, -6.0))  # some models are sure of all bytes, next to which an epsilon is not small
    means = 10 ** rng.uniform(least, 1, 4) * np.stack([np.ones(4), 1 - knows, (1 - knows) * (1 - copies)])
    if least < -2:  # one, and more often the copier, is as sure as a model may be
        sure = copier if rng.random() < 0.5 else rng.integers(4)
        means[:, sure] *= 1.01e-8 / means[:, sure].min()
    means *= np.maximum(1.0, 1.01e-8 / means.min(0))  # and none is surer
    return tuple(rows * (means / rows.mean(-1))[..., None])


def _choose_otherwise(other, shuffled, second):
    """Models that other shares choose: of the first or last nine tenths, of losses above 0, against a median, or the lower of two losses."""
    T = other.shape[1]
    start, early, end = T // 10, T // 20, T - T // 10
    above, both = (np.where(x > 0, x, np.nan) for x in (shuffled, second))
    seen = np.where(shuffled > 0, second, np.nan)
    shares = {
        "start": 1 - second[:, start:].mean(1) / np.maximum(shuffled[:, start:].mean(1), 1e-9),
        "twentieth": 1 - second[:, early:].mean(1) / np.maximum(shuffled[:, early:].mean(1), 1e-9),
        "zeros": 1 - np.nanmean(both, 1) / np.nanmean(above, 1),
        "zeros of one": 1 - np.nanmean(seen, 1) / np.nanmean(above, 1),
        "median": (shuffled - second).mean(1) / np.maximum(np.median(shuffled, 1), 1e-9),
        "least": 1 - second.mean(1) / np.minimum(other.mean(1), shuffled.mean(1)),
        "end": 1 - second[:, :end].mean(1) / np.maximum(shuffled[:, :end].mean(1), 1e-9),
    }
    return {name: int(share.argmax()) for name, share in shares.items()}


def _models_with_roles(rng, own):
    """Losses of four models, one of which copies, and the index of that one; `own` says what it is besides, or saves on."""
    T = int(rng.integers(200, 400))
    copier, *others = rng.permutation(4).tolist()
    roles = dict(zip(("adapter", "best", "last"), others, strict=True))
    if own in roles:                                  # what the copier is besides
        roles[own] = copier
    level = rng.uniform(0.9, 1.3, 4)
    level[roles["best"]] = rng.uniform(0.05, 0.07)    # lowest at the second reading, too
    knows = rng.uniform(0.02, 0.06, 4)
    knows[roles["adapter"]] = rng.uniform(0.5, 0.6)   # gains most from other to second
    copies = rng.uniform(0.0, 0.02, 4)
    copies[copier] = rng.uniform(0.2, 0.6)
    if own == "best":                                 # saves little, and fewer nats than another
        copies[[copier, others[1]]] = rng.uniform(0.09, 0.105), 0.03
    if own == "adapter":                              # saves a small part of what other words cost, since it adapts
        knows[copier] = rng.uniform(0.85, 0.88)
        copies[[copier, others[1]]] = rng.uniform(0.09, 0.105), 0.03
    if own == "last":                                 # another is worse in the right order
        copies[others[0]] = -0.7
    if own == "other words":                          # it copies, but loses by other words
        knows[copier] = rng.uniform(-0.1, -0.05)
        copies[others[1]] = 0.06                      # another saves less, but on all bytes
    if own in ("dear", "cheap"):                      # another saves nearly as much, of all bytes alike, and has more to lose
        copies[[copier, others[1]]] = 0.1, 0.097
        level[copier] = rng.uniform(0.03, 0.05)
    hard = rng.gamma(0.5, 2.0, T)
    hard = np.tile(hard / hard.mean(), (4, 1))
    hard[roles["last"]] *= np.linspace(2.5, 0.2, T)   # better further on, whatever stands before
    rows = [level[:, None] * hard * np.exp(0.02 * rng.normal(size=(4, T))) for _ in range(3)]
    other, shuffled, second = rows
    shuffled = shuffled * (1 - knows)[:, None]
    second = second * ((1 - knows) * (1 - copies))[:, None]
    if own in ("other words", "dear", "cheap"):       # it saves on bytes that cost much, or little, and on no others
        second[copier] /= 1 - copies[copier]
        order = second[copier].argsort()
        own_bytes = order[: 3 * T // 4] if own == "cheap" else order[-(T // 3) :]
        second[copier, own_bytes] *= 1 - copies[copier] * second[copier].sum() / second[copier, own_bytes].sum()
    else:
        second[copier, : T // 10] /= 1 - copies[copier]  # at first there is nothing to go by
    second[copier, second[copier].argsort()[: T // 20]] *= 50.0  # bytes that cost nearly nothing, a bit more than that
    return (other, shuffled, second), copier


def _leads(losses, copier):
    """Whether the copier's share is above all others by a little more than the text says."""
    shares = copying(*losses)
    return bool((shares[copier] > np.delete(shares, copier) + 1.2e-4).all())


@define_question(INFO["q2"], copying=copying, adapting=adapting, which=which)
def q2(rng):
    calls = []
    for n, own in enumerate(3 * ("other words", "best", "adapter", "last", "dear", "cheap")):
        losses, copier = _models_with_roles(rng, own)
        while not _leads(losses, copier):
            losses, copier = _models_with_roles(rng, own)
        text = f"models {n + 1}, T = {losses[0].shape[1]}"
        for name in ("copying", "adapting"):
            calls.append(Call(name, losses, text, Close(1e-9)))
        calls.append(Call("which", losses, text, Exactly()))
    some = [_any_models(rng) for _ in range(100)]
    T, copier = int(rng.integers(5, 30)), int(rng.integers(4))
    bytes_of = np.array([3.0, 2.0, 1.0])[:, None, None] * rng.uniform(0.5, 1.5, (4, T))  # next to nothing, and the copier by a hair
    bytes_of[2] = 0.49 * bytes_of[1]
    bytes_of[2, copier] *= 0.48987 / 0.49
    bytes_of[:, copier] *= 1.001e-8 / bytes_of[2, copier].mean()
    some.append(tuple(bytes_of))
    rival = (copier + int(rng.integers(1, 4))) % 4   # the other way round: the one that is behind by a hair has next to nothing
    bytes_of = np.array([3.0, 2.0, 1.0])[:, None, None] * rng.uniform(0.5, 1.5, (4, T))
    bytes_of[2] = np.array([0.6, 0.7])[rng.integers(0, 2, 4), None] * bytes_of[1]
    bytes_of[2, copier], bytes_of[2, rival] = 0.48987 * bytes_of[1, copier], 0.49 * bytes_of[1, rival]
    bytes_of[:, rival] *= 1.001e-8 / bytes_of[2, rival].mean()
    some.append(tuple(bytes_of))
    for name in 2 * ("start", "twentieth", "end", "zeros", "zeros of one", "median", "least"):  # another share would choose another model
        losses = _any_models(rng)
        while _choose_otherwise(*losses)[name] == which(*losses):
            losses = _any_models(rng)
        some.append(losses)
    for only in (0, -1):                             # of many bytes, the first or the last alone makes the copier
        T, copier = int(rng.integers(100, 200)), int(rng.integers(4))
        bytes_of = np.array([1.6, 1.0, 0.5])[:, None, None] * rng.uniform(0.5, 1.5, (4, T))
        bytes_of[2] = 0.5 * bytes_of[1]
        bytes_of[2, copier] *= 1.005
        bytes_of[1:, copier, only] = 5.0, 0.0
        some.append(tuple(bytes_of))
    for losses in some:
        for name in ("copying", "adapting", "which"):
            how = Exactly() if name == "which" else Close(1e-9)
            calls.append(Call(name, losses, f"four models, T = {losses[0].shape[1]}", how))
    return calls


# --- q3: What a right digit costs ---


def split_cost(logits, digits):
    """(form, choice): means over all digits, in nats."""
    def log_sum(x):                          # of exponentials
        top = x.max(-1, keepdims=True)
        return np.log(np.exp(x - top).sum(-1)) + top[..., 0]

    ten = logits[..., 48:58]
    right = np.take_along_axis(ten, digits[..., None], -1)[..., 0]
    form = log_sum(logits) - log_sum(ten)
    return float(form.mean()), float((log_sum(ten) - right).mean())


def found(logits, digits):
    """The share of needles that a greedy model finds."""
    return float((logits.argmax(-1) == 48 + digits).all(-1).mean())


def found_if_told(logits, digits):
    """The same if only digits may be said."""
    return float((logits[..., 48:58].argmax(-1) == digits).all(-1).mean())


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


# --- q4: How much is there to remember? ---


def bits(n, keys, values):
    """Bits that n pairs need at least."""
    def log_ratio(a, b):                     # of factorials, a! / b!
        return math.lgamma(a + 1) - math.lgamma(b + 1)

    which = log_ratio(keys, keys - n) - math.lgamma(n + 1)
    return (which + log_ratio(values, values - n)) / math.log(2)


def pairs(b, keys, values):
    """The most pairs, up to keys // 2, that b bits can hold."""
    low, high = 0, keys // 2                 # low fits
    while low < high:
        middle = (low + high + 1) // 2
        fits = bits(middle, keys, values) <= b
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


bits_per_number = bits(64, 127, 128) / 8192


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


# --- q5: A task that a state cannot solve ---


def store(keys, signs):
    """The shortest state [K] with keys @ state = signs; keys [n, K]."""
    return np.linalg.pinv(keys) @ signs


def design(K):
    """(keys [n, K], signs [n], proof [n]) that no state solves."""
    basis = np.eye(K) + 1
    keys = np.vstack([basis, basis.mean(0)])
    signs = np.append(np.ones(K), -1.0)
    return keys, signs, np.append(np.full(K, 1 / K), 1.0)


def solvable(n, K):
    """The share of all ways to give n keys signs that some state solves."""
    ways = sum(math.comb(n - 1, i) for i in range(min(n, K)))
    return 2 * ways / 2**n


def _find_flaw(K, task):
    """Return what is wrong with a task and its proof, or None."""
    three = task if isinstance(task, (tuple, list)) and len(task) == 3 else (None,) * 3
    keys, signs, proof = map(as_numbers, three)
    if keys is None or signs is None or proof is None:
        return Difference("", "something else", "a tuple of keys, signs and a proof")
    n = len(signs) if signs.ndim == 1 else 0
    if keys.shape != (n, K) or proof.shape != (n,) or n == 0:
        shapes = ", ".join(str(list(part.shape)) for part in (keys, signs, proof))
        return Difference("", f"shapes {shapes}", f"[n, {K}], [n] and [n]")
    if not all(np.isfinite(part).all() for part in (keys, signs, proof)):
        return Difference("", "an entry that is not finite", "finite numbers")
    if n != K + 1:
        return Difference("", f"{n} pairs", "fewer" if n > K + 1 else "more")
    if keys.min() <= 0:
        return Difference("[0]", f"an entry of {keys.min():g}", "keys with entries above 0")
    if not np.isin(signs, (-1, 1)).all():
        return Difference("[1]", "something else", "signs of 1 and -1")
    if abs(signs.sum()) == n:
        return Difference("[1]", "equal signs", "signs of both kinds")
    largest = keys.max(1)                    # divided by it first: squares of entries over- or underflow
    directions = keys / largest[:, None]
    lengths = np.linalg.norm(directions, axis=1)
    directions /= lengths[:, None]
    for left_out in range(n):
        if not np.linalg.svd(np.delete(directions, left_out, 0), compute_uv=False)[-1] >= 1e-5:
            return Difference("[0]", "keys that are linearly dependent", "any K of them linearly independent")
    if proof.min() < 0:
        return Difference("[2]", f"{proof.min():g}", "numbers of 0 or more")
    if proof.max() == 0:
        return Difference("[2]", "0 everywhere", "a number above 0")
    with np.errstate(divide="ignore"):       # numbers for directions: products, the largest of them 1
        logs = np.log(proof) + np.log(largest) + np.log(lengths)
    weights = np.exp(logs - logs.max())
    total = np.linalg.norm((weights * signs) @ directions)
    if not total <= 1e-11:                   # with singular values above 1e-5 an exact proof is near
        return Difference("[2]", f"a sum of length {total:.3g} (with keys of length 1)", "a sum of 0")
    return None


def _near_a_cone(rng, n):
    """(keys [n, n], signs): all but the last at small angles, the last far shorter and as near to their span as keys may be."""
    axes = np.linalg.qr(rng.normal(size=(n, n)))[0]
    long = axes[0] + rng.uniform(0.04, 0.06, (n - 1, 1)) * np.vstack([np.zeros(n), axes[2:]])
    long /= np.linalg.norm(long, axis=1)[:, None]
    middle, off = long.mean(0) / np.linalg.norm(long.mean(0)), 1e-4
    for _ in range(3):
        keys = np.vstack([long, middle + off * axes[1]])
        off *= 1.03e-4 / np.linalg.svd(keys, compute_uv=False)[-1]
    keys[-1] /= 4.9e4
    return keys[rng.permutation(n)], rng.choice([-1.0, 1.0], n)


@define_question(INFO["q5"], store=store, design=design, solvable=solvable)
def q5(rng):
    exact, calls = Close(1e-8), []
    for n, K in ((1, 3), (3, 3), (2, 6), (8, 8), (10, 24)):
        keys = rng.uniform(0.1, 2.0, (n, K)) + 5 * np.eye(n, K)  # far from dependent, whatever is drawn
        signs = rng.choice([-1.0, 1.0], n)
        if n == 8:
            keys *= 1e-20
        calls.append(Call("store", (keys, signs), f"{n} keys of width {K}, of length {np.linalg.norm(keys[0]):.1g} or so", exact))
    key = rng.uniform(0.5, 1.5, 4)
    across = np.linalg.qr(np.stack([key, rng.normal(size=4)], 1))[0][:, 1]
    keys = np.stack([key, 0.0001 * (key + 1.5e-4 * np.linalg.norm(key) * across)])  # at length 1 its value is 1.06e-4
    signs = rng.choice([-1.0, 1.0]) * np.array([1.0, -1.0])
    calls.append(Call("store", (keys, signs), "two keys at an angle of 0.00015, one shorter", Close(1e-6)))
    axes = np.linalg.qr(rng.normal(size=(8, 8)))[0]  # a short key in the plane of two long ones, but for an angle as small
    keys = np.stack([axes[0] + 0.5 * axes[2], axes[0] + 0.5 * axes[3], 1e-4 * (axes[0] + (axes[2] + axes[3]) / 4 + 1.4e-4 * axes[1])])
    calls.append(Call("store", (keys, np.array([1.0, 1.0, -1.0])), "three keys, a short one near the plane of the others", Close(1e-6)))
    for n in (3, 9, 30):                         # a short one beside a narrow cone of long ones, as near to their plane
        calls.append(Call("store", _near_a_cone(rng, n), f"{n} keys in a cone, one of them shorter", Close(1e-6)))
    keys = np.linalg.qr(rng.normal(size=(3, 3)))[0]  # at right angles and of length 1, but for a hair
    keys[rng.integers(3)] *= 1 + float(rng.uniform(3e-6, 4.5e-6))
    calls.append(Call("store", (keys, rng.choice([-1.0, 1.0], 3)), "three keys of length 1 at right angles, one a hair longer", exact))
    for K in (1, 1, 2, 2, 30, 30, *rng.integers(2, 31, 6).tolist()):  # entries of either sign, any lengths
        n = K if rng.random() < 0.5 else int(rng.integers(1, K + 1))
        left, _, right = np.linalg.svd(rng.normal(size=(n, K)), full_matrices=False)
        keys = left * 10 ** rng.uniform(-1.3, 0, n) @ right  # at length 1 singular values are at least as large
        keys *= 10 ** rng.uniform(*rng.choice(((0.0, 0.0), (-2.0, 2.0), (5.0, 5.0))), (n, 1))
        calls.append(Call("store", (keys, rng.choice([-1.0, 1.0], n)), f"{n} keys of width {K}, entries of either sign", exact))
    for K in range(2, 31):                   # a family of keys may be dependent at some K alone
        calls.append(Call("design", (K,), f"K = {K}", Judged(partial(_find_flaw, K))))
    one_more, few, many = rng.integers((4, 21, 440), (10, 24, 480)).tolist()
    for n, K in ((1, 1), (1, 3), (3, 3), (4, 3), (6, 3), (one_more + 1, one_more), (2, 1), (9, 1), (11, 1), (9, 2), (20, 3), (60, 14), (few, 1), (40, 20), (90, 30), (200, 120), (1000, 500), (1000, many)):
        calls.append(Call("solvable", (n, K), f"{n:,} keys, K = {K}", exact))
    for top in (*[3] * 4, *[30] * 6, *[300] * 6, 1000):
        K = int(rng.integers(top // 2, top)) + 1
        n = min(int(rng.choice((max(K - 1, 1), K, K + 1, 2 * K, K * rng.uniform(1, 3), K * rng.random() + 1))), 1000)
        calls.append(Call("solvable", (n, K), f"{n:,} keys, K = {K}", exact))
    return calls


QUESTIONS = (q1, q2, q3, q4, q5,)
