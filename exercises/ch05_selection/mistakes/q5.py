"""Known answers to question 5: four faults of a delta rule."""

import math

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _run(fault, beta, log_decay, change=""):
    """Outputs, with one thing changed."""
    S, R, o = 0.0, 0.0, []
    for b, g in zip(beta.tolist(), log_decay.tolist(), strict=True):
        alpha = math.exp(g)
        if fault == "A" and change != "A as none":
            R *= 1.0 if change == "A undecayed" else alpha
            u = b - (b if change == "A both" else 1.0) * R
            R += b * u
            S = alpha * S + u
        elif fault == "B":
            S = alpha * S
            S = S + {"B all": -1, "B strength": -1}.get(change, 1) * b * (
                1 + {"B all": -1}.get(change, 1) * S
            )
        elif fault == "C":
            if change == "C erases after":
                S = alpha * (S + b) - b * alpha * alpha * S
            else:
                S = S + b - b * S if change == "C as none" else alpha * (S + b - b * S)
                S = S + (1 - alpha) * b if change == "C write undecayed" else S
            o.append(S)
            if change == "C as none":
                S = alpha * S
            continue
        elif fault == "D" and change != "D as none":
            S = (b - alpha) * S + b if change == "D sign" else (alpha - b) * S + b
        else:
            S = (1 - b) * alpha * S + b
        o.append(S)
    return torch.tensor(o, dtype=beta.dtype)


@mistake(
    "A is written here like the right program. Token i erases beta_j of what each earlier token j wrote, with no beta_i.",
    replaces="outputs",
)
def a_as_none(fault, beta, log_decay):
    return _run(fault, beta, log_decay, "A as none")


@mistake(
    "In A the strengths multiply the columns instead of the rows. You multiply both.", replaces="outputs"
)
def a_rows_and_columns(fault, beta, log_decay):
    return _run(fault, beta, log_decay, "A both")


@mistake("In A the decays in the system are right. What you erase has not decayed.", replaces="outputs")
def a_without_decay(fault, beta, log_decay):
    return _run(fault, beta, log_decay, "A undecayed")


@mistake(
    "In B only the part of earlier tokens has the wrong sign. You changed that of the value.",
    replaces="outputs",
)
def b_changes_the_value(fault, beta, log_decay):
    return _run(fault, beta, log_decay, "B all")


@mistake("In B only the system's lower part changes its sign, not the strengths.", replaces="outputs")
def b_with_negative_strength(fault, beta, log_decay):
    return _run(fault, beta, log_decay, "B strength")


@mistake("In C the write decays as well: the decay comes after both.", replaces="outputs")
def c_with_the_write_undecayed(fault, beta, log_decay):
    return _run(fault, beta, log_decay, "C write undecayed")


@mistake(
    "In C an output is read after the decay, as S_t is. You read between the write and the decay.",
    replaces="outputs",
)
def c_reads_before_the_decay(fault, beta, log_decay):
    return _run(fault, beta, log_decay, "C as none")


@mistake("In C erasing sees the state undecayed too: both it and the write come first.", replaces="outputs")
def c_erases_after_the_decay(fault, beta, log_decay):
    return _run(fault, beta, log_decay, "C erases after")


@mistake(
    "In D what is erased is beta S, without alpha: the state's factor is alpha - beta.", replaces="outputs"
)
def d_as_none(fault, beta, log_decay):
    return _run(fault, beta, log_decay, "D as none")


@mistake(
    "In D the state's factor is alpha - beta, which may be negative. You have beta - alpha.",
    replaces="outputs",
)
def d_the_other_sign(fault, beta, log_decay):
    return _run(fault, beta, log_decay, "D sign")


@mistake(
    "Divided by the product of all factors so far: a strength of 1 makes it 0, and strong decays make it too small for "
    "any number. Go token by token, or multiply only the factors between two tokens.",
    replaces="outputs",
)
def divided_by_products(fault, beta, log_decay):
    if fault == "A":
        return _run(fault, beta, log_decay)
    alpha = log_decay.exp()
    factor = {"B": (1 + beta) * alpha, "D": alpha - beta}.get(fault, (1 - beta) * alpha)
    write, p = alpha * beta if fault == "C" else beta, factor.cumprod(0)
    return p * (write / p).cumsum(0)


@mistake(
    "The decays of the system are powers around the middle here, half of them above 1: they overflow in a "
    "run of strong decays. Take differences of sums first, or go token by token.",
    replaces="outputs",
)
def powers_around_the_middle(fault, beta, log_decay):
    if fault in "CD":
        return _run(fault, beta, log_decay)
    lam, b = log_decay.cumsum(0), beta[:, None]
    decay = torch.outer((lam - lam[-1] / 2).exp(), (lam[-1] / 2 - lam).exp()).tril()
    table = {"A": beta * decay, "B": -b * decay}.get(fault, b * decay).tril(-1)
    eye = torch.eye(len(beta), dtype=beta.dtype)
    return (decay @ torch.linalg.solve_triangular(eye + table, b, upper=False))[:, 0]


@also_right(replaces="outputs")
def by_factors(fault, beta, log_decay):
    alpha, T = log_decay.exp(), len(beta)
    factor = {"B": (1 + beta) * alpha, "D": alpha - beta}.get(fault, (1 - beta) * alpha)
    S, R, o = 0.0, 0.0, torch.zeros_like(beta)
    for t in range(T):
        if fault == "A":  # R: what it erases
            u = beta[t] - alpha[t] * R
            S, R = alpha[t] * S + u, alpha[t] * R + beta[t] * u
        else:
            S = factor[t] * S + beta[t] * (alpha[t] if fault == "C" else 1)
        o[t] = S
    return o


@also_right(replaces="outputs")
def by_tables(fault, beta, log_decay):
    T, lam = len(beta), log_decay.cumsum(0)
    P = (lam[:, None] - lam).clamp(max=0).exp().tril()
    erased = P.tril(-1)  # by which decay what is erased has faded
    if fault == "C":  # a write of j has faded j .. i - 1 when i erases, and j .. i when it is read
        before = lam - log_decay
        erased = (before[:, None] - before).clamp(max=0).exp().tril(-1)
        P = (lam[:, None] - before).clamp(max=0).exp().tril()
    if fault == "D":
        erased = ((lam - log_decay)[:, None] - lam).clamp(max=0).exp().tril(-1)
    table = erased * beta if fault == "A" else beta[:, None] * erased
    table = -table if fault == "B" else table
    u = torch.linalg.solve(torch.eye(T, dtype=beta.dtype) + table, beta)
    return P @ u
