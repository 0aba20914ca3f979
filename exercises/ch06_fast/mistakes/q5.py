"""Known answers to question 5: the size of a tile, the size of a chunk."""

import math

from linattn_exercises.known_mistakes import also_right, mistake


@also_right()
def bytes_by_tiles(T, C, D):
    whole = T // C
    rows = C * whole * (whole + 1) // 2 + (T if T % C else 0)
    return 4 * (T * D + 2 * D * rows)


@mistake("That is one reading of q, k and v. Every tile of queries reads its keys and values again.")
def each_once(T, C, D):
    return 4 * 3 * T * D


@mistake("A tile of queries stops at its own last token, so it does not read all keys and values.")
def all_keys_for_each_tile(T, C, D):
    return 4 * D * (T + 2 * math.ceil(T / C) * T)


@mistake("The last tile may be shorter. A mask leaves out what lies behind the end, and it is not read.")
def whole_tiles(T, C, D):
    n = math.ceil(T / C)
    return 4 * D * (n * C + C * n * (n + 1))


@mistake("That holds where C divides T. The last, shorter tile of queries still reads T keys and values.")
def last_tile_forgotten(T, C, D):
    n = T // C
    return 4 * D * (T + C * n * (n + 1))


@mistake("Keys and values are two tensors.")
def keys_alone(T, C, D):
    return 4 * D * (T + sum(min(start + C, T) for start in range(0, T, C)))


@mistake("These are numbers; one of float32 has 4 bytes.")
def numbers(T, C, D):
    return D * (T + 2 * sum(min(start + C, T) for start in range(0, T, C)))


def _times(H, T, D, F, W, places, tau, C):
    waves, steps = math.ceil(H / places), math.ceil(T / C)
    return H * T * (4 * C * D + 4 * D**2) / F, 8 * H * T * D / W, waves * steps * tau


@also_right(replaces="best_chunk")
def chunk_by_loop(H, T, D, F, W, places, tau):
    best, least = 16, max(_times(H, T, D, F, W, places, tau, 16))
    for C in (32, 64, 128, 256):
        if (took := max(_times(H, T, D, F, W, places, tau, C))) < least:
            best, least = C, took
    return best


@mistake("The three happen at the same time. The longest decides, not the sum.", replaces="best_chunk")
def chunk_by_sum(H, T, D, F, W, places, tau):
    return min((16, 32, 64, 128, 256), key=lambda C: sum(_times(H, T, D, F, W, places, tau, C)))


@mistake(
    "Equal times are not rare: the bytes do not depend on C. Take the smallest of them.",
    replaces="best_chunk",
)
def chunk_largest_of_equals(H, T, D, F, W, places, tau):
    return min((256, 128, 64, 32, 16), key=lambda C: max(_times(H, T, D, F, W, places, tau, C)))


@mistake(
    "A chain runs for each head, but only so many run at a time: the others wait.", replaces="best_chunk"
)
def chunk_without_waves(H, T, D, F, W, places, tau):
    def seconds(C):
        operations, moved, _ = _times(H, T, D, F, W, places, tau, C)
        return max(operations, moved, math.ceil(T / C) * tau)

    return min((16, 32, 64, 128, 256), key=seconds)


@mistake(
    "Heads that are left over make one more wave, and tokens that are left over one more chunk.",
    replaces="best_chunk",
)
def chunk_without_ceilings(H, T, D, F, W, places, tau):
    def seconds(C):
        operations, moved, _ = _times(H, T, D, F, W, places, tau, C)
        return max(operations, moved, max(H / places, 1) * T / C * tau)

    return min((16, 32, 64, 128, 256), key=seconds)


@mistake(
    "Operations count too: a large chunk computes a large table for each of its tokens.",
    replaces="best_chunk",
)
def chunk_without_operations(H, T, D, F, W, places, tau):
    return min((16, 32, 64, 128, 256), key=lambda C: max(_times(H, T, D, F, W, places, tau, C)[1:]))


@mistake(
    "The kernel works on whole chunks, also where the last has fewer tokens: for each token 4CD operations, as the text says.",
    replaces="best_chunk",
)
def last_chunk_as_it_is(H, T, D, F, W, places, tau):
    def seconds(C):
        pairs = T // C * C * C + (T % C) ** 2
        chain = math.ceil(H / places) * math.ceil(T / C) * tau
        return max(H * (4 * D * pairs + 4 * T * D**2) / F, 8 * H * T * D / W, chain)

    return min((16, 32, 64, 128, 256), key=seconds)


@mistake(
    "Without the chunk of 256 tokens: where there are many tokens and few heads, it is the fastest.",
    replaces="best_chunk",
)
def chunk_without_the_largest(H, T, D, F, W, places, tau):
    return min((16, 32, 64, 128), key=lambda C: max(_times(H, T, D, F, W, places, tau, C)))


@mistake("Every token is counted: each of the T has its operations and its numbers.", replaces="best_chunk")
def one_token_fewer(H, T, D, F, W, places, tau):
    def seconds(C):
        operations, moved, chain = _times(H, T, D, F, W, places, tau, C)
        return max(operations * (T - 1) / T, moved * (T - 1) / T, chain)

    return min((16, 32, 64, 128, 256), key=seconds)


@mistake(
    "One head more than there are places is a second wave: the number of waves is H / places, rounded up.",
    replaces="best_chunk",
)
def wave_of_one_head_forgotten(H, T, D, F, W, places, tau):
    def seconds(C):
        operations, moved, _ = _times(H, T, D, F, W, places, tau, C)
        return max(operations, moved, max(1, math.ceil((H - 1) / places)) * math.ceil(T / C) * tau)

    return min((16, 32, 64, 128, 256), key=seconds)
