"""Known answers to question 5: from which length on is a state the smaller memory?"""

import math

from linattn_exercises.known_mistakes import also_right, mistake


@mistake(
    "That is the package's map, which lists x1 x2 and x2 x1 apart. Count each product once.",
    replaces="feature_width",
)
def products_repeated(K, order):
    return sum(K**p for p in range(order + 1))


@mistake(
    "Those are the products of exactly `order` entries. Those of fewer, and the 1, are features too.",
    replaces="feature_width",
)
def highest_order_alone(K, order):
    return math.comb(K + order - 1, order)


@mistake("Squares are products too: an entry may be taken more than once.", replaces="feature_width")
def without_squares(K, order):
    return sum(math.comb(K, p) for p in range(order + 1))


@mistake("The constant 1, the product of no entries, is a feature as well.", replaces="feature_width")
def without_the_one(K, order):
    return math.comb(K + order, order) - 1


@mistake("The denominator is a column of the state: V + 1 numbers for each feature.", replaces="break_even")
def no_denominator(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * V * state_bytes // ((K + V) * cache_bytes) + 1


@mistake("The cache holds keys and values: K + V numbers a token.", replaces="break_even")
def values_alone(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) * state_bytes // (V * cache_bytes) + 1


@mistake(
    "You counted entries. State and cache entries take different numbers of bytes.", replaces="break_even"
)
def entries_for_bytes(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) // (K + V) + 1


@mistake(
    "The sizes of entries were divided as whole numbers first: 2 // 4 is 0, and 3 // 2 is 1.",
    replaces="break_even",
)
def sizes_divided_first(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) * (state_bytes // cache_bytes) // (K + V) + 1


@mistake(
    "The quotients are floats, and what they give may lie a hair below a whole number. Multiply first, and divide whole "
    "numbers by //.",
    replaces="feature_width",
)
def quotients_of_floats(K, order):
    count = 1
    for i in range(order):
        count = count * (K + order - i) / (i + 1)
    return int(count)


@mistake(
    "One token short: there the cache is at most as large as the state, not larger.", replaces="break_even"
)
def one_token_short(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) * state_bytes // ((K + V) * cache_bytes)


@mistake(
    "At equality the cache is as large as the state, not larger: go one token further.", replaces="break_even"
)
def rounded_up(K, V, order, state_bytes, cache_bytes):
    return -(-math.comb(K + order, order) * (V + 1) * state_bytes // ((K + V) * cache_bytes))


@mistake("The bytes are exchanged: state entries take state_bytes.", replaces="break_even")
def bytes_exchanged(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) * cache_bytes // ((K + V) * state_bytes) + 1


@mistake("The cache holds values too: K + V numbers a token.", replaces="break_even")
def keys_alone(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) * state_bytes // (K * cache_bytes) + 1


@mistake("The state is K' x (V + 1), as wide as the features, not K x (V + 1).", replaces="break_even")
def state_of_the_keys(K, V, order, state_bytes, cache_bytes):
    return K * (V + 1) * state_bytes // ((K + V) * cache_bytes) + 1


@mistake(
    "The cache holds keys as they are, K numbers. Only the state is as wide as the features.",
    replaces="break_even",
)
def cache_of_features(K, V, order, state_bytes, cache_bytes):
    width = math.comb(K + order, order)
    return width * (V + 1) * state_bytes // ((width + V) * cache_bytes) + 1


@mistake(
    "Values are V wide and keys K: a token takes K + V, which is neither 2K nor 2V.", replaces="break_even"
)
def keys_twice(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) * state_bytes // (2 * K * cache_bytes) + 1


@mistake(
    "Keys are K wide and values V: a token takes K + V, which is neither 2K nor 2V.", replaces="break_even"
)
def values_twice(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) * state_bytes // (2 * V * cache_bytes) + 1


@also_right(replaces="feature_width")
def counted_by_order(K, order):
    total, term = 1, 1
    for p in range(1, order + 1):
        term = term * (K + p - 1) // p
        total += term
    return total


@also_right(replaces="break_even")
def counted_up(K, V, order, state_bytes, cache_bytes):
    left, token, tokens = math.comb(K + order, order) * (V + 1) * state_bytes, (K + V) * cache_bytes, 0
    while left >= 0:
        left -= token
        tokens += 1
    return tokens


@mistake(
    "The first length whose cache is larger is wanted. You ask for a byte more, and round up once more.",
    replaces="break_even",
)
def rounded_up_twice(K, V, order, state_bytes, cache_bytes):
    state = math.comb(K + order, order) * (V + 1) * state_bytes
    return (state + 1) // ((K + V) * cache_bytes) + 1
