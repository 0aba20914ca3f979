"""Known answers to question 2: online softmax is a scan."""

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _join(first, then, change=""):
    """The element of two stretches, with one thing changed."""
    g1, m1, d1, u1 = first
    g2, m2, d2, u2 = then
    if change == "fades later":
        m2 = m2 + g1
    elif change != "no fading":
        m1 = m1 + g2
    m = torch.maximum(first[1] if change == "early" else m1, m2)
    if change == "sum":
        m = torch.logaddexp(m1, m2)
    at = {"first": m1, "smaller": torch.minimum(m1, m2)}.get(change, m)
    if change not in ("first", "smaller", "bare"):
        at = at.nan_to_num(neginf=0.0)
    a, b = (m1 - at).exp(), (m2 - at).exp()
    a = a * g2.exp() if change == "twice" else a
    d = d1 + d2 if change == "d" else a * d1 + b * d2
    u = u1 + u2 if change == "u" else a * u1 + b * u2
    return g2 if change == "last gate" else g1 + g2, at if change == "first" else m, d, u


@mistake(
    "The score belongs in m alone. With m = x the token's own weight is e^0 = 1, and u is v.",
    replaces="single",
)
def score_twice(x, v, g):
    return g, x, x.exp(), x.exp() * v


@mistake(
    "A hidden token has d = 0 and u = 0: as it is, it counts as soon as m is -inf on both sides.",
    replaces="single",
)
def hidden_ones_count(x, v, g):
    return g, x, torch.ones_like(x), v


@mistake("A token's gate lowers the scores of those before it, not its own.", replaces="single")
def own_score_fades(x, v, g):
    seen = (x > -torch.inf).to(v.dtype)
    return g, x + g, seen, seen * v


@mistake("A hidden token is not the neutral element: its gate still counts.", replaces="single")
def hidden_is_neutral(x, v, g):
    seen = (x > -torch.inf).to(v.dtype)
    return g if x > -torch.inf else torch.zeros_like(g), x, seen, seen * v


@mistake("The scores of the first stretch fade by the gates of the second: m1 + g2.", replaces="compose")
def nothing_fades(first, then):
    return _join(first, then, "no fading")


@mistake(
    "It is the first stretch that fades, by the gates of the second. You lowered the second.",
    replaces="compose",
)
def second_fades(first, then):
    return _join(first, then, "fades later")


@mistake(
    "The denominators were measured against two maxima. Bring both to the larger one.", replaces="compose"
)
def denominator_not_rescaled(first, then):
    return _join(first, then, "d")


@mistake("The numerators were measured against two maxima. Bring both to the larger one.", replaces="compose")
def numerator_not_rescaled(first, then):
    return _join(first, then, "u")


@mistake(
    "Where neither side has anything to be seen, -inf - (-inf) is NaN: take a finite reference there.",
    replaces="compose",
)
def two_infinities(first, then):
    return _join(first, then, "bare")


@mistake(
    "Where nothing is seen, d and u are 0: here a closed gate hides the first stretch, and its d is still there.",
    replaces="compose",
)
def unseen_keeps_its_weight(first, then):
    g1, m1, d1, u1 = first
    g2, m2, d2, u2 = then
    m = torch.maximum(m1 + g2, m2)
    a, b = (m1 + g2 - m).nan_to_num(nan=0.0).exp(), (m2 - m).nan_to_num(nan=0.0).exp()
    return g1 + g2, m, a * d1 + b * d2, a * u1 + b * u2


@mistake(
    "The first stretch fades twice: in m, and once more in d and u. Its weights are relative to m.",
    replaces="compose",
)
def fades_twice(first, then):
    return _join(first, then, "twice")


@mistake(
    "That m is the larger score before the gates of the second stretch. Lower m1 by g2 first, then compare.",
    replaces="compose",
)
def maximum_before_fading(first, then):
    return _join(first, then, "early")


@mistake("m is the larger of the two, not the logarithm of their sum.", replaces="compose")
def sum_for_the_maximum(first, then):
    return _join(first, then, "sum")


@mistake(
    "You measure against the first maximum. If the second is larger by 800, its exponentials overflow.",
    replaces="compose",
)
def against_the_first(first, then):
    return _join(first, then, "first")


@mistake("Against the smaller of the two maxima exponents are positive, and overflow.", replaces="compose")
def against_the_smaller(first, then):
    return _join(first, then, "smaller")


@mistake(
    "The element keeps the gates of both stretches, g1 + g2: what comes before them fades by both.",
    replaces="compose",
)
def gates_of_the_second(first, then):
    return _join(first, then, "last gate")


@mistake(
    "Where the two maxima are equal, both weights are e^0 = 1. You keep the second stretch alone.",
    replaces="compose",
)
def equal_maxima_keep_one(first, then):
    if first[1] + then[0] == then[1]:
        return first[0] + then[0], *then[1:]
    return _join(first, then)


@mistake(
    "The m of no tokens is -inf. With 0, everything below 0 is measured against a score that nobody has.",
    replaces="identity",
)
def score_of_zero(V):
    zero = torch.zeros((), dtype=torch.float64)
    return zero, zero, zero, torch.zeros(V, dtype=torch.float64)


@mistake(
    "A large negative number is neutral only until a row is hidden throughout. m is -inf.",
    replaces="identity",
)
def large_negative_score(V):
    zero = torch.zeros((), dtype=torch.float64)
    return zero, zero - 1e30, zero, torch.zeros(V, dtype=torch.float64)


@mistake("No tokens have no weight: d is 0.", replaces="identity")
def weight_of_one(V):
    zero = torch.zeros((), dtype=torch.float64)
    return zero, zero - torch.inf, zero + 1, torch.zeros(V, dtype=torch.float64)


@mistake(
    "A gate of -inf is a closed one: it would erase what it is composed with. No gate is g = 0.",
    replaces="identity",
)
def closed_gate(V):
    zero = torch.zeros((), dtype=torch.float64)
    return zero - torch.inf, zero - torch.inf, zero, torch.zeros(V, dtype=torch.float64)


@mistake("0/0 where there is nothing to be seen. What values can d have otherwise?", replaces="read")
def nothing_over_nothing(element):
    return element[3] / element[2]


@mistake("That is the numerator. The output is u / d.", replaces="read")
def not_divided(element):
    return element[3]


@mistake(
    "A small number added to d changes every output. d is 0 or at least 1: treat 0 alone.", replaces="read"
)
def epsilon(element):
    return element[3] / (element[2] + 1e-6)


@mistake(
    "The exponential of m cancels between u and d; with it, scores of some hundreds overflow.",
    replaces="read",
)
def maximum_given_back(element):
    _, m, d, u = element
    return m.exp() * u / d.clamp(min=1)


@mistake(
    "Gates act on all that came before. Add up those after token j: x_j + g_(j+1) + ... + g_t.",
    replaces="prefixes",
)
def without_gates(x, v, g):
    return _outputs(x[None].expand(len(x), -1), v)


@mistake(
    "The sum of gates for token j begins at j + 1: its own gate lowers only the tokens before it.",
    replaces="prefixes",
)
def own_gate_too(x, v, g):
    return _outputs(_faded(x, g) + g, v)


@mistake("Where a row has nothing to be seen this is 0/0. Its output is 0.", replaces="prefixes")
def empty_rows(x, v, g):
    o = _outputs(_faded(x, g), v)
    unseen = torch.stack([_faded(x, g)[t].max() == -torch.inf for t in range(len(x))])
    return o.masked_fill(unseen[:, None], torch.nan)


@mistake("Without a maximum that is subtracted, scores of some hundreds overflow.", replaces="prefixes")
def plain_sums(x, v, g):
    w = _faded(x, g).exp()
    return w @ v / w.sum(1, keepdim=True)


@mistake(
    "A closed gate is no large negative number: where the tokens after it are hidden, what it closed off "
    "comes back.",
    replaces="prefixes",
)
def closed_gate_as_a_large_number(x, v, g):
    return _outputs(_faded(x, g.clamp(min=-1e6)), v)


def _faded(x, g):
    """The scores [T, T], with -inf where a token is not seen."""
    T = len(x)
    open_ = torch.arange(T)
    table = torch.full((T, T), -torch.inf, dtype=x.dtype)
    for t in open_.tolist():
        for j in range(t + 1):
            table[t, j] = x[j] + g[j + 1 : t + 1].sum()
    return table


def _outputs(scores, v):
    """Softmax of each row over the tokens up to its own, zeros for a row in which nothing is seen."""
    T = len(v)
    scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
    m = scores.amax(1, keepdim=True).nan_to_num(neginf=0.0)
    w = (scores - m).exp()
    return w @ v / w.sum(1, keepdim=True).clamp(min=1)


@also_right(replaces="compose")
def case_by_case(first, then):
    (g1, m1, d1, u1), (g2, m2, d2, u2) = first, then
    if m1 + g2 == -torch.inf:  # nothing of the first is seen
        return g1 + g2, m2, d2, u2
    if m2 == -torch.inf:
        return g1 + g2, m1 + g2, d1, u1
    m = max(m1 + g2, m2)
    a, b = (m1 + g2 - m).exp(), (m2 - m).exp()
    return g1 + g2, m, a * d1 + b * d2, a * u1 + b * u2


@also_right(replaces="compose")
def by_log_sums(first, then):
    g1, m1, d1, u1 = first
    g2, m2, d2, u2 = then
    one, two = m1 + g2, m2
    d1, u1 = torch.where(g2 > -torch.inf, 1.0, 0.0) * d1, torch.where(g2 > -torch.inf, 1.0, 0.0) * u1
    small = torch.exp(-(one - two).nan_to_num(nan=0.0).abs())  # one factor is always 1
    a, b = (torch.ones_like(small), small) if one >= two else (small, torch.ones_like(small))
    return g1 + g2, torch.maximum(one, two), a * d1 + b * d2, a * u1 + b * u2


@also_right(replaces="read")
def with_where(element):
    _, _, d, u = element
    return torch.where(d > 0, u / d, torch.zeros_like(u)) if d > 0 else torch.zeros_like(u)


@also_right(replaces="prefixes")
def by_a_table(x, v, g):
    return _outputs(_faded(x, g), v)
