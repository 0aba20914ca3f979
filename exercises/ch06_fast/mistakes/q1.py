"""Known answers to question 1: which batch is free?"""

import math

from linattn_exercises.known_mistakes import also_right, mistake


@mistake("Memory and arithmetic work at the same time: the slower one decides, not the sum of both.")
def one_after_the_other(P, batch, cache, rate, peak):
    return (2 * P + batch * cache) / rate + 2 * P * batch / peak


@mistake("A step takes as long as the slower one of memory and arithmetic needs.")
def the_faster_one(P, batch, cache, rate, peak):
    return min((2 * P + batch * cache) / rate, 2 * P * batch / peak)


@mistake("Parameters are read once for the whole batch. Only the cache is read for each sequence.")
def parameters_for_each_sequence(P, batch, cache, rate, peak):
    return max(batch * (2 * P + cache) / rate, 2 * P * batch / peak)


@mistake("A parameter in bfloat16 has two bytes.")
def one_byte_each(P, batch, cache, rate, peak):
    return max((P + batch * cache) / rate, 2 * P * batch / peak)


@mistake("Each sequence has a cache of its own: it is read `batch` times.")
def one_cache_for_all(P, batch, cache, rate, peak):
    return max((2 * P + cache) / rate, 2 * P * batch / peak)


@mistake("Without the time of memory. A step for few sequences waits for the parameters.")
def arithmetic_alone(P, batch, cache, rate, peak):
    return 2 * P * batch / peak


@mistake("Without the time of arithmetic. A step for many sequences waits for the matrix unit.")
def memory_alone(P, batch, cache, rate, peak):
    return (2 * P + batch * cache) / rate


@also_right(replaces="step_seconds")
def seconds_by_comparing(P, batch, cache, rate, peak):
    traffic = 2.0 * P + cache * batch
    work = 2.0 * P * batch
    return work / peak if work * rate > traffic * peak else traffic / rate


@mistake(
    "That is the batch without caches. Each sequence brings bytes as well, so arithmetic catches up more slowly.",
    replaces="ridge_batch",
)
def parameters_alone(P, cache, rate, peak):
    return peak / rate


@mistake(
    "The sign of the cache: it adds to the time of memory, which arithmetic has to catch up with.",
    replaces="ridge_batch",
)
def cache_on_the_wrong_side(P, cache, rate, peak):
    return 2 * P / rate / (2 * P / peak + cache / rate)


@mistake("A real number is asked for: where the two times are equal.", replaces="ridge_batch")
def next_whole_number(P, cache, rate, peak):
    gap = 2 * P / peak - cache / rate
    return math.ceil(2 * P / rate / gap) if gap > 0 else math.inf


@mistake(
    "The cache is counted once, with the parameters. Every sequence has one, so it grows with the batch.",
    replaces="ridge_batch",
)
def cache_counted_once(P, cache, rate, peak):
    return (2 * P + cache) / rate * peak / (2 * P)


@also_right(replaces="ridge_batch")
def ridge_by_bytes(P, cache, rate, peak):
    free = 2 * P * rate / peak  # bytes that a sequence may bring
    return math.inf if cache >= free else 2 * P / (free - cache)


@mistake(
    "That doubles the time of memory. With a large batch arithmetic takes longer at context 0, and twice that is meant.",
    replaces="double_context",
)
def as_if_memory_decided(P, batch, per_token, rate, peak):
    return 2 * P / (batch * per_token)


@mistake(
    "Each sequence of the batch has a context of its own: a token costs batch times its bytes.",
    replaces="double_context",
)
def one_context_for_all(P, batch, per_token, rate, peak):
    start = max(2 * P / rate, 2 * P * batch / peak)
    return (2 * start * rate - 2 * P) / per_token


@mistake(
    "The parameters are read as well. What is left of twice the time is for the cache.",
    replaces="double_context",
)
def parameters_forgotten(P, batch, per_token, rate, peak):
    start = max(2 * P / rate, 2 * P * batch / peak)
    return 2 * start * rate / (batch * per_token)


@mistake(
    "That is where the bytes take as long as arithmetic, or as the parameters once more. From there it is as far again "
    "until the step takes twice as long.",
    replaces="double_context",
)
def time_of_the_cache_alone(P, batch, per_token, rate, peak):
    start = max(2 * P / rate, 2 * P * batch / peak)
    return start * rate / (batch * per_token)


@mistake(
    "The time of arithmetic does not grow with the context here. It is memory that reaches twice the larger time.",
    replaces="double_context",
)
def both_doubled(P, batch, per_token, rate, peak):
    start = max(2 * P / rate, 2 * P * batch / peak)
    return (2 * start - 2 * P * batch / peak) * rate / (batch * per_token)


@also_right(replaces="double_context")
def context_by_bisection(P, batch, per_token, rate, peak):
    def seconds(context):
        return max((2 * P + batch * context * per_token) / rate, 2 * P * batch / peak)

    low, high = 0.0, 1.0
    while seconds(high) < 2 * seconds(0):
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if seconds(middle) < 2 * seconds(0) else (low, middle)
    return high


@mistake(
    "`isclose` takes every difference of less than 1e-8 for 0, and seconds for a byte are fewer than that. Compare with 0 itself.",
    replaces="ridge_batch",
)
def close_to_never(P, cache, rate, peak):
    gap = 2 * P / peak - cache / rate
    return math.inf if gap <= 0 or math.isclose(gap, 0, abs_tol=1e-8) else 2 * P / rate / gap


@mistake(
    "The search ends at a context of ten million. With few bytes a token it is larger: there is a formula.",
    replaces="double_context",
)
def search_with_an_end(P, batch, per_token, rate, peak):
    def seconds(context):
        return max((2 * P + batch * context * per_token) / rate, 2 * P * batch / peak)

    low, high = 0.0, 1e7
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if seconds(middle) < 2 * seconds(0) else (low, middle)
    return high


@mistake(
    "A context of less than a token is an answer: a real number is asked for.", replaces="double_context"
)
def at_least_one_token(P, batch, per_token, rate, peak):
    start = max(2 * P / rate, 2 * P * batch / peak)
    return max(1.0, (2 * start * rate - 2 * P) / (batch * per_token))


@mistake(
    "Your step turns to arithmetic at peak / rate. That is where it does without caches; with them it is later.",
    replaces="step_seconds",
)
def turn_without_cache(P, batch, cache, rate, peak):
    if batch < peak / rate or cache >= 2 * P * rate / peak:
        return (2 * P + batch * cache) / rate
    return 2 * P * batch / peak


@mistake(
    "Arithmetic takes as long as memory at a batch of peak / rate: two bytes and two FLOPs for each parameter.",
    replaces="double_context",
)
def turn_at_half_the_batch(P, batch, per_token, rate, peak):
    if batch <= peak / rate / 2:
        return 2 * P / (batch * per_token)
    return (4 * P * batch / peak * rate - 2 * P) / (batch * per_token)
