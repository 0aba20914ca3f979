"""Known answers to question 4: the triangular system with a decay."""

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _solve(q, k, v, beta, log_decay, S, change=""):
    """The chunk form, with one thing changed."""
    lam, b = log_decay.cumsum(0), beta[:, None]
    one = torch.ones_like(b)
    start, end = lam.exp()[:, None], (lam[-1] - lam).exp()[:, None]
    decay = (lam[:, None] - lam).clamp(max=0).exp().tril()
    earlier = (lam - log_decay)[:, None]  # up to the token before
    erased = (earlier - lam).clamp(max=0).exp() if change == "before" else decay
    table = (one if change == "system undecayed" else erased) * (k @ k.T)
    table = table * beta if change == "columns" else table if change == "no strength" else b * table
    table = table.tril(0 if change == "diagonal twice" else -1)
    eye = torch.eye(len(k), dtype=k.dtype)
    late = earlier.exp()  # from the chunk's start to the token before
    recalled = {"undecayed": one, "before": late, "late": late}.get(change, start) * (k @ S)
    recalled = recalled / b if change == "strength of v" else -recalled if change == "plus" else recalled
    right = v - (0 if change == "old state kept" else recalled)
    right = right if change == "right without strength" else b * right
    u = torch.linalg.solve_triangular(eye - table if change == "sign" else eye + table, right, upper=False)
    if change == "no system":
        u = right
    scores = (one if change == "outputs undecayed" else decay) * (q @ k.T)
    read = {"state read undecayed": one, "late": late, "state unread": 0 * one}.get(change, start)
    o = read * (q @ S) + scores.tril(-1 if change == "own write unread" else 0) @ u
    left = {"keys undecayed": one, "own decay": end * log_decay.exp()[:, None]}.get(change, end)
    whole = {"state undecayed": one[-1], "last decay": log_decay[-1].exp()}.get(change, start[-1])
    return o, whole * S + (left * k).T @ u


@mistake(
    "The state that is erased has decayed from the chunk's start up to the token: k_i S lacks e^(Lambda_i)."
)
def erased_undecayed(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "undecayed")


@mistake(
    "That is the rule alpha I - beta k^T k: what is erased is what was there before the token's own decay. Here decay "
    "comes first, so the exponents in the system include it."
)
def erased_before_the_decay(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "before")


@mistake("The system is without decay: what token j wrote has faded when token i erases it.")
def system_undecayed(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "system undecayed")


@mistake("The table of q and k in the outputs lacks its decays, from token to token.")
def outputs_undecayed(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "outputs undecayed")


@mistake("Queries read the chunk's first state as if it had not decayed since.")
def state_read_undecayed(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "state read undecayed")


@mistake("Outputs are right. In the state that is handed on, writes have not decayed up to the chunk's end.")
def keys_undecayed(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "keys undecayed")


@mistake(
    "Outputs are right. The state that is handed on is that before the chunk, undecayed, plus the writes."
)
def state_undecayed(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "state undecayed")


@mistake(
    "The strengths multiply columns of the system. Row i is what token i erases, so beta_i belongs to row i."
)
def strength_of_columns(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "columns")


@mistake("The system lacks the strengths: token i erases beta_i of what its key recalls.")
def system_without_strength(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "no strength")


@mistake("The right side lacks the strengths: both v and k S are multiplied by beta.")
def right_without_strength(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "right without strength")


@mistake(
    "The sign: what earlier tokens wrote is taken away, so in the system it stands with a plus, beside u_i."
)
def wrong_sign(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "sign")


@mistake(
    "A token does not erase its own write: the table in the system is strictly lower, its diagonal is 1."
)
def diagonal_twice(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "diagonal twice")


@mistake("Each output lacks the token's own write: o_t = q_t S_t reads after it.")
def own_write_unread(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "own write unread")


@mistake("What the chunk's first state recalls is not erased: v_i - k_i R_i contains e^(Lambda_i) k_i S.")
def old_state_kept(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "old state kept")


@mistake(
    "Only the state before the chunk is erased. Tokens of the chunk erase each other too: that is the system."
)
def no_system(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "no system")


@mistake(
    "e^(Lambda_i) times e^(-Lambda_j): right on paper, and the second factor overflows for strong decays."
)
def split_exponents(q, k, v, beta, log_decay, S):
    lam, b = log_decay.cumsum(0)[:, None], beta[:, None]
    grown = k * (-lam).exp()
    system = torch.eye(len(k), dtype=k.dtype) + (b * ((k * lam.exp()) @ grown.T)).tril(-1)
    u = torch.linalg.solve_triangular(system, b * (v - lam.exp() * (k @ S)), upper=False)
    o = lam.exp() * (q @ S) + ((q * lam.exp()) @ grown.T).tril() @ u
    return o, lam[-1].exp() * (S + grown.T @ u)


@mistake(
    "Measured from half of Lambda_C, half of the exponents are positive still, and a run of strong decays "
    "makes them overflow."
)
def split_around_the_middle(q, k, v, beta, log_decay, S):
    lam, b = log_decay.cumsum(0), beta[:, None]
    start, end = lam.exp()[:, None], (lam[-1] - lam).exp()[:, None]
    decay = torch.outer((lam - lam[-1] / 2).exp(), (lam[-1] / 2 - lam).exp()).tril()
    system = torch.eye(len(k), dtype=k.dtype) + (b * decay * (k @ k.T)).tril(-1)
    u = torch.linalg.solve_triangular(system, b * (v - start * (k @ S)), upper=False)
    return start * (q @ S) + (decay * (q @ k.T)) @ u, start[-1] * S + (end * k).T @ u


@mistake(
    "The exponents above the diagonal are positive and overflow, and infinity times the mask's 0 is NaN: clamp the "
    "differences first, or fill what is hidden afterwards."
)
def masked_too_late(q, k, v, beta, log_decay, S):
    lam, b = log_decay.cumsum(0), beta[:, None]
    mask = torch.ones(len(k), len(k), dtype=k.dtype).tril()
    decay = mask * (lam[:, None] - lam).exp()
    start, end = lam.exp()[:, None], (lam[-1] - lam).exp()[:, None]
    system = torch.eye(len(k), dtype=k.dtype) + (b * decay * (k @ k.T)).tril(-1)
    u = torch.linalg.solve_triangular(system, b * (v - start * (k @ S)), upper=False)
    return start * (q @ S) + (decay * (q @ k.T)) @ u, start[-1] * S + (end * k).T @ u


@mistake("The decay comes after erasing and writing in your rule, so that a token's own write fades at once.")
def decay_comes_last(q, k, v, beta, log_decay, S):
    o = []
    for t in range(len(k)):
        S = log_decay[t].exp() * (S + beta[t] * torch.outer(k[t], v[t] - k[t] @ S))
        o.append(q[t] @ S)
    return torch.stack(o), S


@mistake(
    "From a write to the chunk's end stand the decays of the tokens after it, without its own: Lambda_C - Lambda_j."
)
def own_decay_too(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "own decay")


@mistake("Token i meets the chunk's first state after its own decay too: e^(Lambda_i), not e^(Lambda_(i-1)).")
def starts_without_its_own_decay(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "late")


@mistake("The strength multiplies v alone on your right side: it belongs to what is recalled as well.")
def strength_of_v_alone(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "strength of v")


@mistake("The sign: what the first state recalls is taken away from v, not added.")
def recalled_is_added(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "plus")


@mistake("Outputs are right. The first state goes through all decays of the chunk, not the last alone.")
def last_decay_alone(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "last decay")


@mistake("The state is right. Outputs lack what queries read of the chunk's first state.")
def first_state_unread(q, k, v, beta, log_decay, S):
    return _solve(q, k, v, beta, log_decay, S, "state unread")


@mistake("The outputs are divided by the root of K. Here o = q S, without a scale.")
def scaled(q, k, v, beta, log_decay, S):
    o, S = _solve(q, k, v, beta, log_decay, S)
    return o * q.shape[1] ** -0.5, S


@mistake(
    "A series for the inverse needs as many terms as there are tokens: where keys are alike, late ones are the largest. "
    "The system is triangular: solve it."
)
def series_cut_short(q, k, v, beta, log_decay, S):
    lam, b = log_decay.cumsum(0), beta[:, None]
    start, end = lam.exp()[:, None], (lam[-1] - lam).exp()[:, None]
    decay = (lam[:, None] - lam).clamp(max=0).exp().tril()
    table = (b * decay * (k @ k.T)).tril(-1)
    term = u = b * (v - start * (k @ S))
    for _ in range(40):
        term = -table @ term
        u = u + term
    return start * (q @ S) + (decay * (q @ k.T)) @ u, start[-1] * S + (end * k).T @ u


@also_right()
def by_the_wy_form(q, k, v, beta, log_decay, S):
    lam = torch.cat([log_decay.new_zeros(1), log_decay.cumsum(0)])
    P = torch.exp(torch.minimum(lam[1:, None] - lam[1:], lam.new_zeros(1)))
    L = torch.tril(P * (k @ k.T) * beta[:, None], diagonal=-1)
    inverse = torch.linalg.inv(torch.eye(len(k), dtype=k.dtype) + L) * beta
    W = inverse @ (k * lam[1:, None].exp())
    u = inverse @ v - W @ S
    o = (q * lam[1:, None].exp()) @ S + torch.tril(P * (q @ k.T)) @ u
    return o, lam[-1].exp() * S + (P[-1][:, None] * k).T @ u


@also_right()
def with_strengths_on_the_diagonal(q, k, v, beta, log_decay, S):
    lam = log_decay.cumsum(0)
    P = torch.where(lam[:, None] <= lam, lam[:, None] - lam, torch.zeros_like(lam)).exp()
    system = torch.diag(1 / beta) + torch.tril(P * (k @ k.T), -1)
    u = torch.linalg.solve(system, v - lam.exp().unsqueeze(1) * (k @ S))
    state = torch.einsum("jk,jv,j->kv", k, u, P[-1]) + lam[-1].exp() * S
    return torch.einsum("ik,kv,i->iv", q, S, lam.exp()) + torch.tril(P * (q @ k.T)) @ u, state


@also_right()
def in_halves(q, k, v, beta, log_decay, S):
    n = len(k)
    if n == 1:
        R = log_decay.exp() * S
        S = R + beta * torch.outer(k[0], v[0] - k[0] @ R)
        return q @ S, S
    first, second = (
        [x[part] for x in (q, k, v, beta, log_decay)] for part in (slice(0, n // 2), slice(n // 2, n))
    )
    o, S = in_halves(*first, S)
    rest, S = in_halves(*second, S)
    return torch.cat([o, rest]), S
