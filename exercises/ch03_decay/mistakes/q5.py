"""Known answers to question 5: a gate from its symptoms."""

import math

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _run(fault, log_decay, chunk, change=""):
    """Outputs, with one thing changed."""
    S, o = 0.0, []
    for t, g in enumerate(log_decay.tolist()):
        alpha = math.exp(2 * g if fault == "D" and change != "D as none" else g)
        edge = {"B later": 1, "B all": 0}.get(change, 0)
        if fault == "B" and (t or change == "B first") and t % chunk == edge:
            alpha = 1.0
        before = S
        if fault == "A" and change == "A without write":
            S = alpha * S + alpha**2
        else:
            S = alpha * (S + 1) if fault == "A" else alpha * S + 1
        if fault == "C":
            o.append({"C without write": before, "C as none": S}.get(change, before + 1))
        else:
            o.append(S)
        if fault == "C" and change == "C handed on":
            S = before + 1
        if fault == "B" and change == "B resets" and t and t % chunk == 0:
            o[-1] = S = 1.0
    return torch.tensor(o, dtype=log_decay.dtype)


@mistake(
    "C is written here like the right program: it reads before the decay, which shows from token 2 on.",
    replaces="outputs",
)
def c_as_none(fault, log_decay, chunk):
    return _run(fault, log_decay, chunk, "C as none")


@mistake("In C the token's own write takes part, whole. You read the past alone.", replaces="outputs")
def c_without_write(fault, log_decay, chunk):
    return _run(fault, log_decay, chunk, "C without write")


@mistake("In C only the reading is wrong. You also hand on a state that has not decayed.", replaces="outputs")
def c_hands_it_on(fault, log_decay, chunk):
    return _run(fault, log_decay, chunk, "C handed on")


@mistake(
    "In B it is the first token of a chunk that does not decay. You took the second.", replaces="outputs"
)
def b_second_token(fault, log_decay, chunk):
    return _run(fault, log_decay, chunk, "B later")


@mistake("In B the state is handed on undecayed; you begin each chunk with an empty one.", replaces="outputs")
def b_resets(fault, log_decay, chunk):
    return _run(fault, log_decay, chunk, "B resets")


@mistake("In D each decay acts twice: e^(2g).", replaces="outputs")
def d_as_none(fault, log_decay, chunk):
    return _run(fault, log_decay, chunk, "D as none")


@mistake("In A the token's write decays once, by its own decay, not twice.", replaces="outputs")
def a_decays_the_write_twice(fault, log_decay, chunk):
    return _run(fault, log_decay, chunk, "A without write")


def _step(fault, log_decay, chunk, faulty, at, step):
    """Outputs; those of one fault by a step of their own, where it applies."""
    S, o = 0.0, []
    for t, g in enumerate(log_decay.tolist()):
        a, before = math.exp(g), S
        if fault == faulty and at(t):
            S = step(a, S)
        elif fault == "A":
            S = a * (S + 1)
        elif fault == "B" and t % chunk == 0:
            S = S + 1
        else:
            S = (a * a if fault == "D" else a) * S + 1
        o.append(before + 1 if fault == "C" else S)
    return torch.tensor(o, dtype=log_decay.dtype)


@mistake(
    "Applied twice is alpha squared. You took the root of alpha, which forgets more slowly.",
    replaces="outputs",
)
def d_by_the_root(fault, log_decay, chunk):
    return _step(fault, log_decay, chunk, "D", lambda t: True, lambda a, S: a**0.5 * S + 1)


@mistake("Applied twice is alpha squared, not 2 alpha.", replaces="outputs")
def d_by_twice_alpha(fault, log_decay, chunk):
    return _step(fault, log_decay, chunk, "D", lambda t: True, lambda a, S: 2 * a * S + 1)


@mistake(
    "In D both decays act before the write. In yours the second one shrinks the write too.",
    replaces="outputs",
)
def d_decays_the_write(fault, log_decay, chunk):
    return _step(fault, log_decay, chunk, "D", lambda t: True, lambda a, S: a * (a * S + 1))


@mistake(
    "In A the decay acts after the write, on the whole state. In yours the old state does not decay.",
    replaces="outputs",
)
def a_decays_the_write_alone(fault, log_decay, chunk):
    return _step(fault, log_decay, chunk, "A", lambda t: True, lambda a, S: S + a)


@mistake("In B the first token of a chunk leaves out its decay. You took the last one.", replaces="outputs")
def b_last_token(fault, log_decay, chunk):
    if fault != "B":
        return _run(fault, log_decay, chunk)
    last = [1.0 if t % chunk == chunk - 1 else 0.0 for t in range(len(log_decay))]
    return _run("none", log_decay * (1 - torch.tensor(last, dtype=log_decay.dtype)), chunk)


@mistake(
    "In B every chunk after the first begins so. You left out the decay at one edge alone.",
    replaces="outputs",
)
def b_first_edge_alone(fault, log_decay, chunk):
    if fault != "B":
        return _run(fault, log_decay, chunk)
    changed = log_decay.clone()
    changed[chunk : chunk + 1] = 0.0
    return _run("none", changed, chunk)


@mistake(
    "In B the state is handed on, and the token still writes. Yours leaves out the write.", replaces="outputs"
)
def b_leaves_out_the_write(fault, log_decay, chunk):
    return _step(fault, log_decay, chunk, "B", lambda t: t % chunk == 0, lambda a, S: a * S)


@mistake("The chunks have the length that is given, not 4.", replaces="outputs")
def chunks_of_four(fault, log_decay, chunk):
    return _run(fault, log_decay, 4)


@mistake(
    "log_decay is the logarithm of alpha: alpha is its exponential, not its magnitude.", replaces="outputs"
)
def magnitude_for_alpha(fault, log_decay, chunk):
    return _run(fault, log_decay.neg().log(), chunk)


@mistake("Each token has its own decay. You took the first one for all.", replaces="outputs")
def one_decay_for_all(fault, log_decay, chunk):
    return _run(fault, log_decay[:1].expand(len(log_decay)), chunk)


@mistake(
    "Where the decays are strong, exponents above the diagonal overflow, and infinity times the mask's 0 is NaN. Mask "
    "before the exponential, or go token by token.",
    replaces="outputs",
)
def masked_after_the_exponential(fault, log_decay, chunk):
    if fault in "BC":
        return _run(fault, log_decay, chunk)
    lam = (2 if fault == "D" else 1) * log_decay.cumsum(0)
    start = lam - log_decay if fault == "A" else lam
    return ((lam[:, None] - start).exp() * torch.ones(len(lam), len(lam)).tril()).sum(1)


@mistake(
    "Powers that count from the middle reach half as far, and overflow all the same in a long run of strong "
    "decays. Take the exponential of differences, or go token by token.",
    replaces="outputs",
)
def powers_around_the_middle(fault, log_decay, chunk):
    if fault in "ABC":
        return _run(fault, log_decay, chunk)
    lam = (2 if fault == "D" else 1) * log_decay.cumsum(0)
    gap = lam - lam[-1] / 2
    return gap.exp() * (-gap).exp().cumsum(0)


@also_right(replaces="outputs")
def by_tables(fault, log_decay, chunk):
    g = log_decay * (2 if fault == "D" else 1)
    T = len(g)
    if fault == "B":
        first = torch.arange(T) % chunk == 0
        first[0] = False
        g = g.masked_fill(first, 0.0)
    c = g.cumsum(0)
    reads = c - g if fault == "C" else c  # through which decay the past is read
    writes = c - g if fault == "A" else c  # from which decay on a write has decayed
    past = (reads[:, None] - writes).exp().tril(-1)
    own = g.exp() if fault == "A" else torch.ones_like(g)
    return past.sum(1) + own
