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
