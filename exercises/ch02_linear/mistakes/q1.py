"""Known answers to question 1: from a step to a table."""

import torch

from linattn_exercises.known_mistakes import also_right, mistake


@mistake("The diagonal lacks w: the token reads itself with the weights w, not with 1.")
def no_bonus(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    decay = ((c - log_decay)[:, None] - c).masked_fill(~past, -torch.inf).exp()
    return decay * (q @ k.T) + torch.diag((q * k).sum(-1))


@mistake("The diagonal is 0. Reading comes before writing, but the token takes part by way of w.")
def no_diagonal(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    return ((c - log_decay)[:, None] - c).masked_fill(~past, -torch.inf).exp() * (q @ k.T)


@mistake(
    "The token itself counts twice: q . k, as if it were read after writing, and the term with w. It is w's alone."
)
def itself_counted_twice(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    decay = ((c - log_decay)[:, None] - c).masked_fill(~past, -torch.inf).exp()
    return (decay + torch.eye(len(q), dtype=q.dtype)) * (q @ k.T) + torch.diag((q * w * k).sum(-1))


@mistake("One decay too many: that of token t itself. It reads S_{t-1}, which has not been through it.")
def own_decay_included(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    decay = (c[:, None] - c).masked_fill(~past, -torch.inf).exp()
    return decay * (q @ k.T) + torch.diag((q * w * k).sum(-1))


@mistake("The decays are shifted: what j writes goes through those of j + 1 ... t - 1, not of j ... t - 1.")
def writer_decays(q, k, log_decay, w):
    before = log_decay.cumsum(0) - log_decay
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    decay = (before[:, None] - before).masked_fill(~past, -torch.inf).exp()
    return decay * (q @ k.T) + torch.diag((q * w * k).sum(-1))


@mistake("w belongs to the token itself alone. You gave it to the past as well.")
def bonus_everywhere(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    decay = ((c - log_decay)[:, None] - c).masked_fill(~past, -torch.inf).exp()
    return decay * ((q * w) @ k.T) + torch.diag((q * w * k).sum(-1))


@mistake("Right on paper. exp(c_t) exp(-c_j) is 0 times infinity under strong decay: subtract first.")
def two_factors(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    inner = (q * (c - log_decay).exp()[:, None]) @ (k * (-c).exp()[:, None]).T
    return inner.tril(-1) + torch.diag((q * w * k).sum(-1))


@mistake(
    "Right on paper. Products of decays vanish, and their ratio is 0/0: divide by subtracting logarithms.",
)
def ratio_of_products(q, k, log_decay, w):
    product = log_decay.exp().cumprod(0)
    before = product / log_decay.exp()
    return (before[:, None] / product * (q @ k.T)).tril(-1) + torch.diag((q * w * k).sum(-1))


@mistake(
    "Above the diagonal the exponent is positive and exp overflows; infinity times 0 is not a number. Mask first.",
)
def masked_after_exp(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).double()
    return ((c - log_decay)[:, None] - c).exp() * past * (q @ k.T) + torch.diag((q * w * k).sum(-1))


@mistake("There is no decay in your table.")
def no_decay(q, k, log_decay, w):
    return (q @ k.T).tril(-1) + torch.diag((q * w * k).sum(-1))


@mistake(
    "The numbers are right, but they are those of the step, run on values that name their token. Write each entry of A "
    "as a formula in t and j, and let torch compute all at once.",
)
def pushed_through(q, k, log_decay, w):
    T, K = q.shape
    eye = torch.eye(T, dtype=q.dtype)  # values that name their token: the outputs are the rows of A
    S, rows = torch.zeros(K, T, dtype=q.dtype), []
    for t in range(T):
        write = k[t][:, None] * eye[t]
        rows.append(q[t] @ (S + w[:, None] * write))
        S = log_decay[t].exp() * S + write
    return torch.stack(rows)


@mistake("The scores are divided by sqrt K. The step has no scale.")
def scaled(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    decay = ((c - log_decay)[:, None] - c).masked_fill(~past, -torch.inf).exp()
    return decay * (q @ k.T) * q.shape[1] ** -0.5 + torch.diag((q * w * k).sum(-1))


@mistake("The log decays are not added up. From j to t there are those of all tokens between.")
def not_added_up(q, k, log_decay, w):
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    decay = (0 * log_decay[:, None] - log_decay).masked_fill(~past, -torch.inf).exp()
    return decay * (q @ k.T) + torch.diag((q * w * k).sum(-1))


@mistake(
    "The table of decays is right on paper. exp(c_t) times exp(-c_j) is 0 times infinity: subtract, then take exp."
)
def two_factors_of_the_table(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    decay = ((c - log_decay).exp()[:, None] * (-c).exp()).tril(-1)
    return decay * (q @ k.T) + torch.diag((q * w * k).sum(-1))


@mistake("The diagonal has decayed. The token itself takes part with w alone, before any decay.")
def diagonal_decayed(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    decay = ((c - log_decay)[:, None] - c).masked_fill(~past, -torch.inf).exp()
    return decay * (q @ k.T) + torch.diag((q * w * k).sum(-1) * log_decay.exp())


@also_right()
def summed_down_the_columns(q, k, log_decay, w):
    T = len(q)
    later = torch.ones(T, T, dtype=q.dtype).tril(-1)
    steps = log_decay[:, None] * later  # [i, j]: the decay of i, if i comes after j
    decay = torch.exp(steps.cumsum(0) - steps) * later
    return decay * torch.einsum("tk,jk->tj", q, k) + torch.diag_embed(torch.einsum("tk,k,tk->t", q, w, k))


@also_right()
def put_where_the_past_is(q, k, log_decay, w):
    T, c = len(q), log_decay.cumsum(0)
    past = torch.ones(T, T).tril(-1).bool()
    decay = torch.eye(T, dtype=q.dtype)
    decay[past] = torch.masked_select((c - log_decay)[:, None] - c, past).exp()
    table = decay * (q @ k.T)
    table.fill_diagonal_(0)
    return table + torch.diag((q * w * k).sum(-1))
