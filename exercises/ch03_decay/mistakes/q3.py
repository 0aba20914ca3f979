"""Known answers to question 3: the table of a vector gate, by matrix products."""

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _by_parts(q, k, log_decay, part, boundary="before", exclusive="", diagonal=0, forget=None):
    """The table by parts, with places to go wrong."""
    c, C = log_decay.cumsum(0), len(q)
    c = log_decay if forget == "sums" else c - log_decay if exclusive == "both" else c
    read = c - log_decay if exclusive == "queries" else c
    A = torch.zeros(C, C, dtype=q.dtype)
    for m in range(0, C, part):
        e = min(m + part, C)
        gap = (read[m:e, None] - (read if exclusive else c)[m:e]).clamp(max=0)
        gap = torch.zeros_like(gap) if forget == "own" else gap
        if forget != "diagonal":
            A[m:e, m:e] = (q[m:e, None] * k[m:e] * gap.exp()).sum(-1).tril(diagonal)
        if m and forget != "earlier":
            far = {"before": m - 1, "first": 0, "own": m, "end": e - 1, "earlier": m - part}
            edge = c[far[boundary]] if boundary in far else torch.zeros_like(c[0])
            sign = -1 if forget == "signs" else 1
            left = q[m:e] if forget == "left" else q[m:e] * (sign * (read[m:e] - edge)).exp()
            right = k[:m] if forget == "right" else k[:m] * (sign * (edge - c[:m])).exp()
            A[m:e, :m] = left @ right.T
            if forget == "far":
                A[m:e, : m - part] = 0.0
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
    return _by_parts(q, k, log_decay, part, exclusive="queries")


@mistake(
    "Your sums end before the token, for what is read and for what is written. Both include its own decay."
)
def exclusive_sums_for_all(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, exclusive="both")


@mistake("The log decays are not added up. The decay from j to i is the sum over all tokens between.")
def not_added_up(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, forget="sums")


@mistake("The queries lack their decay, from the part's first token to themselves.")
def queries_not_decayed_from_the_first(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, forget="left", boundary="own")


@mistake("The keys lack their decay, from themselves to the part's first token.")
def keys_not_decayed_to_the_first(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, forget="right", boundary="own")


@mistake("The signs are exchanged: the query decays from the boundary on, a key from itself to the boundary.")
def signs_exchanged(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, forget="signs")


@mistake("Within a part nothing decays: there each entry needs its own factor, in each channel.")
def no_decay_within_parts(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, forget="own")


@mistake("Only the part before is read. All earlier tokens are, those of each part.")
def previous_part_alone(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, forget="far")


@mistake(
    "Split at the start of the chunk: e^-c grows without bound for later keys. Take a boundary close by."
)
def no_boundary(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, boundary="none")


@mistake(
    "The boundary is the part's last token: for the queries before it the exponent is positive, and overflows. It must "
    "lie between the keys and all queries of the part."
)
def boundary_behind_the_queries(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, boundary="end")


@mistake(
    "The boundary lies one part too early: for keys behind it the exponent is positive, and overflows. It must lie "
    "between all keys and the queries."
)
def boundary_before_the_keys(q, k, log_decay, part):
    return _by_parts(q, k, log_decay, part, boundary="earlier")


@mistake("Two boundaries: queries decay from one, keys to the other, and the decay between them is lost.")
def two_boundaries(q, k, log_decay, part):
    A, c = _by_parts(q, k, log_decay, part), log_decay.cumsum(0)
    for m in range(part, len(q), part):
        e = min(m + part, len(q))
        A[m:e, :m] = (q[m:e] * (c[m:e] - c[m]).exp()) @ (k[:m] * (c[m - 1] - c[:m]).exp()).T
    return A


@mistake("Within a part you took the mean over channels. It is a sum.")
def mean_of_channels(q, k, log_decay, part):
    A, C = _by_parts(q, k, log_decay, part), len(q)
    same = torch.arange(C)[:, None] // part == torch.arange(C) // part
    return torch.where(same, A / q.shape[1], A)


@mistake("The log decays of all channels are added. Each channel has its own decay, inside the sum.")
def channels_added(q, k, log_decay, part):
    A, c = _by_parts(q, k, log_decay, part), log_decay.cumsum(0)
    for m in range(part, len(q), part):
        e = min(m + part, len(q))
        left = q[m:e] * (c[m:e] - c[m]).sum(-1, keepdim=True).exp()
        A[m:e, :m] = left @ (k[:m] * (c[m] - c[:m]).exp()).T
    return A


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
def keys_that_decay_in_place(q, k, log_decay, part):
    C = len(q)
    A, seen, gate = torch.zeros(C, C, dtype=q.dtype), k.clone(), log_decay.exp()
    for i in range(C):
        seen[:i].mul_(gate[i])
        A[i, : i + 1] = seen[: i + 1] @ q[i]
    return A


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


@also_right()
def rows_of_the_diagonal_one_by_one(q, k, log_decay, part):
    c, C = log_decay.cumsum(0), len(q)
    A = torch.zeros(C, C, dtype=q.dtype)
    for m in range(0, C, part):
        e = min(m + part, C)
        for i in range(m, e):
            decay = torch.exp(c[i] - c[m : i + 1])
            A[i, m : i + 1] = (decay * k[m : i + 1] * q[i]).sum(-1)
        left, right = torch.exp(c[m:e] - c[m]), torch.exp(c[m] - c[:m])
        A[m:e, :m] = (q[m:e] * left) @ (k[:m] * right).mT
    return A
