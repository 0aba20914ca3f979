"""Known answers to question 4: how much is there to remember?"""

import math

import numpy as np

from linattn_exercises.known_mistakes import also_right, mistake


def _ratio(a, b):
    return math.lgamma(a + 1) - math.lgamma(b + 1)


def _bits(n, keys, values):
    return (_ratio(keys, keys - n) - math.lgamma(n + 1) + _ratio(values, values - n)) / math.log(2)


@mistake("That counts pairs in order. The order in which they came is not asked for: divide by n!.")
def ordered(n, keys, values):
    return (_ratio(keys, keys - n) + _ratio(values, values - n)) / math.log(2)


@mistake(
    "That lets two keys have the same value. Values are different: each has one choice fewer than the last."
)
def values_with_repetition(n, keys, values):
    return (_ratio(keys, keys - n) - math.lgamma(n + 1)) / math.log(2) + n * math.log2(values)


@mistake("That writes each pair down by itself. Which keys there are is a set, and no two are alike.")
def pair_by_pair(n, keys, values):
    return n * math.log2(keys * values)


@mistake("Those are nats: take the logarithm to base 2.")
def nats(n, keys, values):
    return _bits(n, keys, values) * math.log(2)


@mistake("That chooses the set of values alone. Which value belongs to which key has to be known, too.")
def set_of_values(n, keys, values):
    return _bits(n, keys, values) - math.lgamma(n + 1) / math.log(2)


@mistake("Those are the values alone. Other keys may be asked for, so which were there has to be remembered.")
def values_alone(n, keys, values):
    return _ratio(values, values - n) / math.log(2)


@mistake("Those are the keys. Their values have to be remembered as well.")
def keys_alone(n, keys, values):
    return (_ratio(keys, keys - n) - math.lgamma(n + 1)) / math.log(2)


@mistake("It is not rounded up here.")
def rounded_up(n, keys, values):
    return math.ceil(_bits(n, keys, values))


@mistake("That gives every key a value, those that do not occur too.")
def all_keys(n, keys, values):
    return keys * math.log2(values)


def _pairs(b, keys, values, bits):
    return max(n for n in range(keys // 2 + 1) if bits(n, keys, values) <= b)


@mistake("One more than fits.", "pairs")
def one_too_many(b, keys, values):
    return _pairs(b, keys, values, _bits) + 1


@mistake("That rounds the bits of n pairs up. With 12.4 bits, pairs that need 12.3 fit.", "pairs")
def whole_bits(b, keys, values):
    return _pairs(b, keys, values, lambda *sizes: math.ceil(_bits(*sizes)))


@mistake("That divides the bits by those of the first pair. Later pairs need fewer.", "pairs")
def by_the_first_pair(b, keys, values):
    return min(keys // 2, int(b / _bits(1, keys, values)))


@mistake("That goes on beyond half of the keys.", "pairs")
def beyond_half(b, keys, values):
    most = min(keys, values)
    return max(n for n in range(most + 1) if _bits(n, keys, values) <= b)


@mistake("That is the first number of pairs that no longer fits. Asked is the last one that does.", "pairs")
def first_that_does_not_fit(b, keys, values):
    return next((n for n in range(keys // 2) if _bits(n, keys, values) > b), keys // 2)


@also_right()
def by_sums(n, keys, values):
    return sum(math.log2(keys - i) - math.log2(i + 1) + math.log2(values - i) for i in range(n))


@also_right()
def by_a_table(n, keys, values):
    logs = np.zeros(max(keys, values) + 1)
    logs[1:] = np.cumsum(np.log2(np.arange(1, len(logs))))
    return float(logs[keys] - logs[n] - logs[keys - n] + logs[values] - logs[values - n])


@also_right("pairs")
def one_by_one(b, keys, values):
    n, used = 0, 0.0
    while n < keys // 2:
        used += math.log2(keys - n) - math.log2(n + 1) + math.log2(values - n)
        if used > b:
            break
        n += 1
    return n
