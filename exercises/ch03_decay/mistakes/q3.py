"""Known answers to question 3: the table of a vector gate, by matrix products."""

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _by_parts(q, k, log_decay, part, boundary="before", exclusive=False, diagonal=0, forget=None):
    """The table by parts, with places to go wrong."""
    c, C = log_decay.cumsum(0), len(q)
    read = c - log_decay if exclusive else c
    A = torch.zeros(C, C, dtype=q.dtype)
    for m in range(0, C, part):
        e = min(m + part, C)
        gap = (read[m:e, None] - c[m:e]).clamp(max=0)
        if forget != "diagonal":
            A[m:e, m:e] = (q[m:e, None] * k[m:e] * gap.exp()).sum(-1).tril(diagonal)
        if m and forget != "earlier":
            edge = {"before": c[m - 1], "first": c[0], "own": c[m]}[boundary]
            left = q[m:e] if forget == "left" else q[m:e] * (read[m:e] - edge).exp()
            right = k[:m] if forget == "right" else k[:m] * (edge - c[:m]).exp()
            A[m:e, :m] = left @ right.T
    return A


@mistake(
    "One boundary for all parts: for keys between it and the part the exponent is positive, and overflows."
)
def one_boundary(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, boundary="first")


@mistake("The queries lack their decay: from the boundary to themselves.")
def queries_not_decayed(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, forget="left")


@mistake("The keys lack their decay: from themselves to the boundary.")
def keys_not_decayed(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, forget="right")


@mistake("Parts see themselves alone: the blocks of earlier tokens are 0.")
def own_part_alone(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, forget="earlier")


@mistake("The blocks on the diagonal are 0: a part does not see itself.")
def earlier_parts_alone(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, forget="diagonal")


@mistake("A token reads after its own decay: the sum over log decays includes it.")
def exclusive_sums(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, exclusive=True)


@mistake("The diagonal is missing: with j = i nothing has decayed, and the entry is q_i . k_i.")
def strict_diagonal(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, diagonal=-1)


@mistake("Right on paper: e^c e^-c with c from the beginning of the chunk. e^-c overflows for strong decays.")
def split_once(q, k, log_decay, part):
    c = log_decay.cumsum(0)
    return ((q * c.exp()) @ (k * (-c).exp()).T).tril()


@mistake("The numbers are right, and the whole C x C x K tensor is there: that is what parts are to avoid.")
def all_at_once(q, k, log_decay, part):
    c = log_decay.cumsum(0)
    gap = (c[:, None] - c).clamp(max=0)
    return (q[:, None] * k * gap.exp()).sum(-1).tril()


@mistake(
    "The block of a part with itself is split at the part's first token: for keys behind it the exponent is "
    "positive, and overflows in a long part that forgets. Sum these blocks entry by entry."
)
def split_within_parts(q, k, log_decay, part):
    c, C = log_decay.cumsum(0), len(q)
    A = torch.zeros(C, C, dtype=q.dtype)
    for m in range(0, C, part):
        e = min(m + part, C)
        A[m:e, :e] = (q[m:e] * (c[m:e] - c[m]).exp()) @ (k[:e] * (c[m] - c[:e]).exp()).T
    return A.tril()


@mistake("One decay for all channels, their mean. Each channel has its own, inside the sum.")
def mean_over_channels(q, k, log_decay, part):
    c = log_decay.mean(-1).cumsum(0)
    return (q @ k.T) * (c[:, None] - c).clamp(max=0).exp().tril()


@also_right()
def key_by_key_on_the_diagonal(q, k, log_decay, part):
    c = log_decay.cumsum(0)
    rows = []
    for m, (Q, L, own) in enumerate(zip(q.split(part), k.split(part), c.split(part), strict=True)):
        start, n = m * part, len(Q)
        edge = c[start - 1] if m else torch.zeros_like(c[0])
        before = (Q * (own - edge).exp()) @ (k[:start] * (edge - c[:start]).exp()).T
        decay = torch.exp(torch.minimum(own[:, None] - own[None], torch.zeros_like(own[0])))
        block = torch.einsum("ik,jk,ijk->ij", Q, L, decay).tril()
        rows.append(torch.cat([before, block, Q.new_zeros(n, len(q) - start - n)], 1))
    return torch.cat(rows)
