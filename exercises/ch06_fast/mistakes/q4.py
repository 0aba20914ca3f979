"""Known answers to question 4: two programs, one state."""

import triton
import triton.language as tl

from linattn_exercises.known_mistakes import also_right, mistake


@mistake(
    "All segments of a head add to one place. Whichever loads before another has stored loses that one's sum. Give each segment a place of its own."
)
@triton.jit
def one_place_for_all(k, v, sums, T, L, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n, s = tl.program_id(0), tl.program_id(1)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    S = tl.zeros((K, V), tl.float32)
    for start in range(s * L, min(s * L + L, T), C):
        t = start + i
        inside = ((t < s * L + L) & (t < T))[:, None]
        M = tl.load(k + (n * T + t)[:, None] * K + c, mask=inside, other=0.0)
        X = tl.load(v + (n * T + t)[:, None] * V + d, mask=inside, other=0.0)
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    place = n * K * V
    where = sums + place + c[:, None] * V + d
    tl.store(where, tl.load(where) + S)


@mistake(
    "An atomic addition loses nothing, but adds in the order in which programs end, which differs from run to run. Give each segment a place of its own."
)
@triton.jit
def added_atomically(k, v, sums, T, L, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n, s = tl.program_id(0), tl.program_id(1)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    S = tl.zeros((K, V), tl.float32)
    for start in range(s * L, min(s * L + L, T), C):
        t = start + i
        inside = ((t < s * L + L) & (t < T))[:, None]
        M = tl.load(k + (n * T + t)[:, None] * K + c, mask=inside, other=0.0)
        X = tl.load(v + (n * T + t)[:, None] * V + d, mask=inside, other=0.0)
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    place = n * K * V
    tl.atomic_add(sums + place + c[:, None] * V + d, S)


@mistake(
    "A segment need not end where a chunk does, and its last chunk takes tokens of the next segment. Mask at s L + L too."
)
@triton.jit
def segment_end_unmasked(k, v, sums, T, L, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n, s = tl.program_id(0), tl.program_id(1)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    S = tl.zeros((K, V), tl.float32)
    for start in range(s * L, min(s * L + L, T), C):
        t = start + i
        inside = (t < T)[:, None]
        M = tl.load(k + (n * T + t)[:, None] * K + c, mask=inside, other=0.0)
        X = tl.load(v + (n * T + t)[:, None] * V + d, mask=inside, other=0.0)
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    place = (n * tl.num_programs(1) + s) * K * V
    tl.store(sums + place + c[:, None] * V + d, S)


@mistake(
    "The number of segments is T / L rounded up. A last one that is short counts as well, so take `tl.num_programs(1)`."
)
@triton.jit
def last_segment_not_counted(k, v, sums, T, L, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n, s = tl.program_id(0), tl.program_id(1)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    S = tl.zeros((K, V), tl.float32)
    for start in range(s * L, min(s * L + L, T), C):
        t = start + i
        inside = ((t < s * L + L) & (t < T))[:, None]
        M = tl.load(k + (n * T + t)[:, None] * K + c, mask=inside, other=0.0)
        X = tl.load(v + (n * T + t)[:, None] * V + d, mask=inside, other=0.0)
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    place = (n * ((T + L // 2) // L) + s) * K * V
    tl.store(sums + place + c[:, None] * V + d, S)


@mistake(
    "The last segment may be shorter than L, and its last chunk reads behind the end of the sequence. Mask at T too."
)
@triton.jit
def sequence_end_unmasked(k, v, sums, T, L, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n, s = tl.program_id(0), tl.program_id(1)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    S = tl.zeros((K, V), tl.float32)
    for start in range(s * L, s * L + L, C):
        t = start + i
        inside = (t < s * L + L)[:, None]
        M = tl.load(k + (n * T + t)[:, None] * K + c, mask=inside, other=0.0)
        X = tl.load(v + (n * T + t)[:, None] * V + d, mask=inside, other=0.0)
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    place = (n * tl.num_programs(1) + s) * K * V
    tl.store(sums + place + c[:, None] * V + d, S)


@mistake(
    "Places of different programs overlap: sums is [N, segments, K, V], so head n begins at n times the number of segments."
)
@triton.jit
def head_without_its_segments(k, v, sums, T, L, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n, s = tl.program_id(0), tl.program_id(1)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    S = tl.zeros((K, V), tl.float32)
    for start in range(s * L, min(s * L + L, T), C):
        t = start + i
        inside = ((t < s * L + L) & (t < T))[:, None]
        M = tl.load(k + (n * T + t)[:, None] * K + c, mask=inside, other=0.0)
        X = tl.load(v + (n * T + t)[:, None] * V + d, mask=inside, other=0.0)
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    place = (n + s) * K * V
    tl.store(sums + place + c[:, None] * V + d, S)


@mistake("The places are those of [segments, N, K, V]. Segments of one head lie side by side.")
@triton.jit
def axes_of_places_swapped(k, v, sums, T, L, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n, s = tl.program_id(0), tl.program_id(1)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    S = tl.zeros((K, V), tl.float32)
    for start in range(s * L, min(s * L + L, T), C):
        t = start + i
        inside = ((t < s * L + L) & (t < T))[:, None]
        M = tl.load(k + (n * T + t)[:, None] * K + c, mask=inside, other=0.0)
        X = tl.load(v + (n * T + t)[:, None] * V + d, mask=inside, other=0.0)
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    place = (s * tl.num_programs(0) + n) * K * V
    tl.store(sums + place + c[:, None] * V + d, S)


@mistake(
    "Half precision for a tile: it keeps three digits of what is loaded. Compute in float32, as the tensors are."
)
@triton.jit
def values_in_half_precision(k, v, sums, T, L, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n, s = tl.program_id(0), tl.program_id(1)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    S = tl.zeros((K, V), tl.float32)
    for start in range(s * L, min(s * L + L, T), C):
        t = start + i
        inside = ((t < s * L + L) & (t < T))[:, None]
        M = tl.load(k + (n * T + t)[:, None] * K + c, mask=inside, other=0.0)
        X = tl.load(v + (n * T + t)[:, None] * V + d, mask=inside, other=0.0).to(tl.float16).to(tl.float32)
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    place = (n * tl.num_programs(1) + s) * K * V
    tl.store(sums + place + c[:, None] * V + d, S)


@mistake(
    "That is the state after each segment, from the first token on. Program (n, s) adds its own segment alone."
)
@triton.jit
def from_the_first_token(k, v, sums, T, L, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n, s = tl.program_id(0), tl.program_id(1)
    i, c, d = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    S = tl.zeros((K, V), tl.float32)
    for start in range(0, min(s * L + L, T), C):
        t = start + i
        inside = ((t < s * L + L) & (t < T))[:, None]
        M = tl.load(k + (n * T + t)[:, None] * K + c, mask=inside, other=0.0)
        X = tl.load(v + (n * T + t)[:, None] * V + d, mask=inside, other=0.0)
        S += tl.dot(tl.trans(M), X, input_precision="ieee")
    place = (n * tl.num_programs(1) + s) * K * V
    tl.store(sums + place + c[:, None] * V + d, S)


@mistake(
    "You store the state after the segment has written. What segment s needs is what the segments before it have left.",
    replaces="states_before",
)
@triton.jit
def after_the_segment(sums, state, before, last, segments, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    c, d = tl.arange(0, K), tl.arange(0, V)
    kv = c[:, None] * V + d
    S = tl.load(state + n * K * V + kv)
    for s in range(0, segments):
        place = (n * segments + s) * K * V + kv
        S += tl.load(sums + place)
        tl.store(before + place, S)
    tl.store(last + n * K * V + kv, S)


@mistake("The states begin at 0 and not with the one that is given.", replaces="states_before")
@triton.jit
def starts_empty(sums, state, before, last, segments, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    c, d = tl.arange(0, K), tl.arange(0, V)
    kv = c[:, None] * V + d
    S = tl.zeros((K, V), tl.float32)
    for s in range(0, segments):
        place = (n * segments + s) * K * V + kv
        tl.store(before + place, S)
        S += tl.load(sums + place)
    tl.store(last + n * K * V + kv, S)


@mistake(
    "`last` receives the state before the last segment. What that one writes belongs to it.",
    replaces="states_before",
)
@triton.jit
def last_segment_left_out(sums, state, before, last, segments, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    c, d = tl.arange(0, K), tl.arange(0, V)
    kv = c[:, None] * V + d
    S = tl.load(state + n * K * V + kv)
    for s in range(0, segments):
        place = (n * segments + s) * K * V + kv
        tl.store(before + place, S)
        tl.store(last + n * K * V + kv, S)
        S += tl.load(sums + place)


@mistake(
    "There may be more segments than you have written out. A loop over `range(0, segments)` goes through all of them.",
    replaces="states_before",
)
@triton.jit
def a_fixed_number_of_segments(sums, state, before, last, segments, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    c, d = tl.arange(0, K), tl.arange(0, V)
    kv = c[:, None] * V + d
    S = tl.load(state + n * K * V + kv)
    for s in tl.static_range(0, 16):
        if s < segments:
            place = (n * segments + s) * K * V + kv
            tl.store(before + place, S)
            S += tl.load(sums + place)
    tl.store(last + n * K * V + kv, S)


@mistake("Your loop runs against time: segment s gets what the later ones write.", replaces="states_before")
@triton.jit
def against_time(sums, state, before, last, segments, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    c, d = tl.arange(0, K), tl.arange(0, V)
    kv = c[:, None] * V + d
    S = tl.load(state + n * K * V + kv)
    for s in range(0, segments):
        place = (n * segments + segments - 1 - s) * K * V + kv
        tl.store(before + place, S)
        S += tl.load(sums + place)
    tl.store(last + n * K * V + kv, S)


@mistake(
    "The state loses digits from segment to segment: it is rounded to half precision. What is added up for long stays in float32.",
    replaces="states_before",
)
@triton.jit
def state_in_half_precision(sums, state, before, last, segments, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    c, d = tl.arange(0, K), tl.arange(0, V)
    kv = c[:, None] * V + d
    S = tl.load(state + n * K * V + kv)
    for s in range(0, segments):
        place = (n * segments + s) * K * V + kv
        tl.store(before + place, S)
        S = (S + tl.load(sums + place)).to(tl.float16).to(tl.float32)
    tl.store(last + n * K * V + kv, S)


@mistake(
    "The numbers are right, but for each segment you add all that come before it anew: the sums are read again and again. Carry the state along.",
    replaces="states_before",
)
@triton.jit
def each_from_the_start(sums, state, before, last, segments, K: tl.constexpr, V: tl.constexpr):
    n = tl.program_id(0)
    kv = tl.arange(0, K)[:, None] * V + tl.arange(0, V)
    for s in range(0, segments + 1):
        S = tl.load(state + n * K * V + kv)
        for earlier in range(0, s):
            S += tl.load(sums + (n * segments + earlier) * K * V + kv)
        if s < segments:
            tl.store(before + (n * segments + s) * K * V + kv, S)
        else:
            tl.store(last + n * K * V + kv, S)


@also_right()
@triton.jit
def by_pointers_that_move(k, v, sums, T, L, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    n, s = tl.program_id(0), tl.program_id(1)
    i, c, d = tl.arange(0, C)[None, :], tl.arange(0, K), tl.arange(0, V)
    first = s * L
    size = tl.minimum(L, T - first)
    k += (n * T + first) * K
    v += (n * T + first) * V
    S = tl.zeros((K, V), tl.float32)
    done = 0
    while done < size:
        here = done + i
        M = tl.load(k + here * K + c[:, None], mask=here < size, other=0.0)
        X = tl.load(v + tl.trans(here) * V + d[None, :], mask=tl.trans(here) < size, other=0.0)
        S = tl.dot(M, X, S, input_precision="ieee")
        done += C
    sums += (n * tl.num_programs(1) + s) * K * V
    tl.store(sums + c[:, None] * V + d[None, :], S)


@also_right(replaces="states_before")
@triton.jit
def row_by_row(sums, state, before, last, segments, K: tl.constexpr, V: tl.constexpr):
    n, d = tl.program_id(0), tl.arange(0, V)
    for c in range(K):
        S = tl.load(state + (n * K + c) * V + d)
        for s in range(segments):
            tl.store(before + ((n * segments + s) * K + c) * V + d, S)
            S = S + tl.load(sums + ((n * segments + s) * K + c) * V + d)
        tl.store(last + (n * K + c) * V + d, S)
