"""Known answers to question 4: causal online softmax, over tiles."""

import math

import torch

from linattn_exercises.known_mistakes import also_right, mistake


@mistake("There is no causal mask: every query saw all keys.")
def sees_the_future(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = q @ k[now].T * K**-0.5
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake(
    "The last tile was moved back to be full, so the keys that it shares with the tile before count twice."
)
def last_tile_moved_back(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for start in range(0, S, tile):
        now = torch.arange(S)[max(0, min(start, S - tile)) : start + tile]
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(S)[-T:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("Where there are more keys than queries, query i stands at position S - T + i, not at i.")
def queries_at_the_beginning(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(T)[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("The logarithm of d is to base 2, and m is not. The log-sum-exp is m + ln d.")
def logarithm_to_base_two(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(S)[-T:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log2()).flatten()


@mistake("Your mask hides the token itself. Key t is visible to query t.")
def hides_itself(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now >= torch.arange(S)[-T:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("What was gathered before a larger maximum came was not rescaled: neither d nor u.")
def never_rescaled(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(S)[-T:, None], -torch.inf)
        m = torch.maximum(m, x.amax(1, keepdim=True))
        w = (x - m).exp()
        d, u = d + w.sum(1, keepdim=True), u + w @ v[now]
    return u / d, (m + d.log()).flatten()


@mistake("The denominator is rescaled, the numerator u is not. Both were measured against the old maximum.")
def numerator_not_rescaled(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(S)[-T:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("The last tile is dropped when it is shorter than the others.")
def drops_the_last_tile(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S - S % tile).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(S)[-T:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("The scale 1/sqrt K is missing.")
def without_scale(q, k, v, tile):
    T, S = len(q), len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T).masked_fill(now > torch.arange(S)[-T:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("The scale is applied twice: that is 1/K.")
def scaled_twice(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T / K).masked_fill(now > torch.arange(S)[-T:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake(
    "A query is measured against a maximum that is not its own: of hidden scores, or of all queries. A large one makes "
    "all its exponentials 0. Mask first, then take the maximum along the keys of each query.",
)
def maximum_of_the_hidden(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = q @ k[now].T * K**-0.5
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp() * (now <= torch.arange(S)[-T:, None])
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("Every tile has the mask of the first. Key c of a tile stands at start + c: mask by position.")
def mask_of_the_first_tile(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for start in range(0, S, tile):
        x = q @ k[start : start + tile].T * K**-0.5
        x = x.masked_fill(torch.ones_like(x).triu(1).bool(), -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[start : start + tile], new
    return u / d, (m + d.log()).flatten()


@mistake("u is rescaled, the denominator d is not. Both were measured against the old maximum.")
def denominator_not_rescaled(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(S)[-T:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake(
    "You take the maximum of each tile as the new reference. Where it is minus infinity or smaller than before, "
    "nothing is left to measure against: keep the larger of the two.",
)
def maximum_of_the_tile(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(S)[-T:, None], -torch.inf)
        new = x.amax(1, keepdim=True)
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake(
    "The running maximum starts at a finite number. Where all scores lie far below it, all exponentials are 0: start at "
    "minus infinity."
)
def starts_at_zero(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = torch.zeros(T, 1).double(), torch.zeros(T, 1).double(), torch.zeros(T, v.shape[1]).double()
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(S)[-T:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("No maximum is subtracted, so large scores overflow and small ones vanish.")
def plain_exponentials(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    d, u = torch.zeros(T, 1).double(), torch.zeros(T, v.shape[1]).double()
    for now in torch.arange(S).split(tile):
        w = (q @ k[now].T * K**-0.5).exp().masked_fill(now > torch.arange(S)[-T:, None], 0)
        d, u = d + w.sum(1, keepdim=True), u + w @ v[now]
    return u / d, d.log().flatten()


@mistake("The output is right. The log-sum-exp lacks the maximum that was subtracted.")
def maximum_not_given_back(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(S)[-T:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, d.log().flatten()


@mistake("You returned u and d as they are. The output is u / d.")
def not_divided(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > torch.arange(S)[-T:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u, (m + d.log()).flatten()


@mistake(
    "The numbers are right, but a tensor is too large: the table of scores, a T x T mask, or a product [T, tile, V].",
)
def whole_table(q, k, v, tile):
    x = q @ k.T * q.shape[1] ** -0.5
    x = x.masked_fill(torch.ones_like(x).triu(1 + len(k) - len(q)).bool(), -torch.inf)
    m = x.amax(1, keepdim=True)
    w = (x - m).exp()
    d = w.sum(1, keepdim=True)
    return w @ v / d, (m + d.log()).flatten()


@mistake(
    "The numbers are right, and no table is large, but you go query by query. Carry m, d and u of all queries at once.",
)
def query_by_query(q, k, v, tile):
    outputs, sums = [], []
    for t in range(len(q)):
        seen = len(k) - len(q) + t + 1
        x = k[:seen] @ q[t] / math.sqrt(q.shape[1])
        m = x.max()
        w = (x - m).exp()
        outputs.append(w @ v[:seen] / w.sum())
        sums.append(m + w.sum().log())
    return torch.stack(outputs), torch.stack(sums)


def _start(q, v):
    """The maximum, the denominator and the numerator before the first tile."""
    m, d, u = (torch.zeros(len(q), n, dtype=q.dtype) for n in (1, 1, v.shape[1]))
    return m - torch.inf, d, u


@mistake("The log-sum-exp is m + log d. You added d itself to the maximum.")
def log_forgotten(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = _start(q, v)
    t = torch.arange(S - T, S)
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > t[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d).flatten()


@mistake("That is d, a sum that was measured against m. The log-sum-exp is m + log d.")
def sum_for_its_logarithm(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = _start(q, v)
    t = torch.arange(S - T, S)
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > t[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, d.flatten()


@mistake("The scale is 1/sqrt K, K the width of a key. You took the length of a tile.")
def scaled_by_the_tile(q, k, v, tile):
    T, S = len(q), len(k)
    m, d, u = _start(q, v)
    t = torch.arange(S - T, S)
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * tile**-0.5).masked_fill(now > t[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("m stays what it was: at the end of a tile the new maximum becomes the old one.")
def maximum_not_brought_up_to_date(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = _start(q, v)
    t = torch.arange(S - T, S)
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > t[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now]
    return u / d, (m + d.log()).flatten()


@mistake(
    "The weights of a tile are measured against the old maximum. They belong to the new one, as d and u do then."
)
def measured_against_the_old_maximum(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = _start(q, v)
    t = torch.arange(S - T, S)
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > t[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - m).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("A hidden score of 0 still has the weight exp(0). Use minus infinity.")
def zero_for_hidden(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = _start(q, v)
    t = torch.arange(S - T, S)
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > t[:, None], 0.0)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake("Your mask is off by one: each query also sees the key that comes after it.")
def one_key_too_many(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = _start(q, v)
    t = torch.arange(S - T, S)
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > t[:, None] + 1, -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake(
    "Hidden scores are lowered by ten thousand. One that was far above the visible ones still is: set them to minus "
    "infinity."
)
def lowered_by_ten_thousand(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = _start(q, v)
    t = torch.arange(S - T, S)
    for now in torch.arange(S).split(tile):
        x = q @ k[now].T * K**-0.5 - 1e4 * (now > t[:, None])
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake(
    "Minus a thousand is not minus infinity: visible scores may lie below it, and then the hidden ones win."
)
def minus_a_thousand_for_hidden(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = _start(q, v)
    t = torch.arange(S - T, S)
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > t[:, None], -1e3)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake(
    "u is divided by d in every tile, and then gathered on as if it were a sum. Divide once, at the end."
)
def divided_in_every_tile(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = _start(q, v)
    t = torch.arange(S - T, S)
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > t[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d = shrink * d + w.sum(1, keepdim=True)
        u, m = (shrink * u + w @ v[now]) / d, new
    return u, (m + d.log()).flatten()


@mistake("The loop ends after T keys. There are S of them.")
def stops_after_as_many_keys_as_queries(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = _start(q, v)
    t = torch.arange(S - T, S)
    for now in torch.arange(T).split(tile):
        x = (q @ k[now].T * K**-0.5).masked_fill(now > t[:, None], -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        shrink, w = (m - new).exp(), (x - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], new
    return u / d, (m + d.log()).flatten()


@mistake(
    "A tile whose scores lie far below the maximum is skipped. Its weights are small, but there may be many."
)
def faint_tiles_skipped(q, k, v, tile):
    m, d, u = _start(q, v)
    t = torch.arange(len(k) - len(q), len(k))[:, None]
    for a, b, j in zip(k.split(tile), v.split(tile), torch.arange(len(k)).split(tile), strict=True):
        x = (q @ a.T * q.shape[1] ** -0.5).masked_fill(j > t, -torch.inf)
        top = x.amax(1, keepdim=True)
        if (top < m - 12).all():
            continue
        new = torch.maximum(m, top)
        w, shrink = (x - new).exp(), (m - new).exp()
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ b, new
    return u / d, (m + d.log())[:, 0]


@also_right()
def running_mean(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    log_sum = torch.full((T,), -torch.inf, dtype=q.dtype)
    mean = torch.zeros(T, v.shape[1]).double()
    for start in range(0, S, tile):
        first = max(0, start - (S - T))  # earlier queries see nothing of this tile
        late = torch.arange(S)[S - T + first :]
        x = q[first:] @ k[start : start + tile].T / K**0.5
        x[late[:, None] < torch.arange(start, start + x.shape[1])] = -torch.inf
        top = x.max(1).values
        w = torch.exp(x - top[:, None])
        tile_sum = top + w.sum(1).log()
        gap = tile_sum - log_sum[first:]  # a sigmoid's logarithm, by hand
        new = torch.maximum(tile_sum, log_sum[first:]) + torch.log1p(torch.exp(-gap.abs()))
        tile_mean = w @ v[start : start + tile] / w.sum(1, keepdim=True)
        keep = torch.exp(log_sum[first:] - new)[:, None]
        mean[first:] = keep * mean[first:] + (1 - keep) * tile_mean
        log_sum[first:] = new
    return mean, log_sum


@also_right()
def maximum_with_one_column_more(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    m, d, u = (
        torch.full((T, 1), -torch.inf).double(),
        torch.zeros(T, 1).double(),
        torch.zeros(T, v.shape[1]).double(),
    )
    for now in torch.arange(S).split(tile):
        x = (q @ k[now].T / K**0.5).masked_fill(now > torch.arange(S - T, S)[:, None], -torch.inf)
        both = torch.cat([m, x], 1)
        top = both.amax(1, keepdim=True)
        both = (both - top).exp()
        shrink, w = both[:, :1], both[:, 1:]
        d, u, m = shrink * d + w.sum(1, keepdim=True), shrink * u + w @ v[now], top
    return u / d, (m + d.log())[:, 0]
