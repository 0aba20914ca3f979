"""Planted answers to ``ch02_linear``: wrong ones, each with its hint, and right ones written in another way."""

import math
from statistics import NormalDist

import torch

from linattn_exercises.questions import also_right, mistake

# --- q1: from a step to a table -------------------------------------------------------------------------------


@mistake("q1", "The diagonal lacks w: the token reads itself with the weights w, not with 1.")
def no_bonus(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    decay = ((c - log_decay)[:, None] - c).masked_fill(~past, -torch.inf).exp()
    return decay * (q @ k.T) + torch.diag((q * k).sum(-1))


@mistake("q1", "The diagonal is 0. Reading comes before writing, but the token takes part by way of w.")
def no_diagonal(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    return ((c - log_decay)[:, None] - c).masked_fill(~past, -torch.inf).exp() * (q @ k.T)


@mistake("q1", "One decay too many: that of token t itself. It reads S_{t-1}, which has not been through it.")
def own_decay_included(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    decay = (c[:, None] - c).masked_fill(~past, -torch.inf).exp()
    return decay * (q @ k.T) + torch.diag((q * w * k).sum(-1))


@mistake(
    "q1", "The decays are shifted: what j writes goes through those of j + 1 ... t - 1, not of j ... t - 1."
)
def writer_decays(q, k, log_decay, w):
    before = log_decay.cumsum(0) - log_decay
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    decay = (before[:, None] - before).masked_fill(~past, -torch.inf).exp()
    return decay * (q @ k.T) + torch.diag((q * w * k).sum(-1))


@mistake("q1", "w belongs to the token itself alone. You gave it to the past as well.")
def bonus_everywhere(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).bool()
    decay = ((c - log_decay)[:, None] - c).masked_fill(~past, -torch.inf).exp()
    return decay * ((q * w) @ k.T) + torch.diag((q * w * k).sum(-1))


@mistake("q1", "Right on paper. exp(c_t) exp(-c_j) is 0 times infinity under strong decay: subtract first.")
def two_factors(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    inner = (q * (c - log_decay).exp()[:, None]) @ (k * (-c).exp()[:, None]).T
    return inner.tril(-1) + torch.diag((q * w * k).sum(-1))


@mistake(
    "q1",
    "Right on paper. Products of decays vanish, and their ratio is 0/0: divide by subtracting logarithms.",
)
def ratio_of_products(q, k, log_decay, w):
    product = log_decay.exp().cumprod(0)
    before = product / log_decay.exp()
    return (before[:, None] / product * (q @ k.T)).tril(-1) + torch.diag((q * w * k).sum(-1))


@mistake(
    "q1",
    "Above the diagonal the exponent is positive and exp overflows; infinity times 0 is not a number. Mask first.",
)
def masked_after_exp(q, k, log_decay, w):
    c = log_decay.cumsum(0)
    past = torch.ones(len(q), len(q)).tril(-1).double()
    return ((c - log_decay)[:, None] - c).exp() * past * (q @ k.T) + torch.diag((q * w * k).sum(-1))


@mistake("q1", "There is no decay in your table.")
def no_decay(q, k, log_decay, w):
    return (q @ k.T).tril(-1) + torch.diag((q * w * k).sum(-1))


@also_right("q1")
def pushed_through(q, k, log_decay, w):
    T, K = q.shape
    eye = torch.eye(T, dtype=q.dtype)  # values that name their token: the outputs are the rows of A
    S, rows = torch.zeros(K, T, dtype=q.dtype), []
    for t in range(T):
        write = k[t][:, None] * eye[t]
        rows.append(q[t] @ (S + w[:, None] * write))
        S = log_decay[t].exp() * S + write
    return torch.stack(rows)


@also_right("q1")
def entry_by_entry(q, k, log_decay, w):
    A = torch.zeros(len(q), len(q), dtype=q.dtype)
    for t in range(len(q)):
        A[t, t] = (q[t] * w * k[t]).sum()
        for j in range(t):
            A[t, j] = torch.exp(log_decay[j + 1 : t].sum()) * (q[t] @ k[j])
    return A


# --- q2: a chunk form that forgets ----------------------------------------------------------------------------


@mistake(
    "q2", "The state handed on from the chunk before is read as it was. Token i has decayed it i + 1 times."
)
def old_state_not_decayed(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append(Q @ S + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake(
    "q2", "Off by one where a chunk begins: its first token has decayed the old state once, not zero times."
)
def edge_off_by_one(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * i).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake(
    "q2", "What is handed on is off by one: the last token of a chunk has not been decayed when it ends."
)
def handed_on_off_by_one(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake(
    "q2", "What a chunk writes is handed on without decay. Its first token has been decayed C - 1 times."
)
def written_not_decayed(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + K.T @ V
    return torch.cat(o), S


@mistake("q2", "The old state is handed on as if one token had passed. A chunk decays it C times.")
def decayed_once_a_chunk(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("q2", "The last chunk is shorter, and you decayed the state as if it had the full length.")
def full_length_at_the_end(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * chunk) * S + ((g * (chunk - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake(
    "q2",
    "Right on paper. For small gamma gamma^i gamma^-j is 0 times infinity: form i - j before the exponential.",
)
def powers_apart(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        up, down = (g * i).exp()[:, None], (-g * i).exp()[:, None]
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + ((up * Q) @ (down * K).T).tril() @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake(
    "q2", "The state is brought up to date before the chunk reads it, so tokens read what comes after them."
)
def updated_before_reading(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
    return torch.cat(o), S


@mistake("q2", "The old state is handed on without decay. A chunk of C tokens multiplies it by gamma^C.")
def state_never_decayed(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("q2", "Your mask hides the token itself. The step writes before it reads.")
def itself_hidden(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril(-1)
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake(
    "q2", "The decays of what is handed on run the wrong way: the first token of a chunk has waited longest."
)
def waiting_reversed(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * i).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake(
    "q2",
    "At the end what was written waits for its own chunk, the old state for a full one. Both wait for len(Q) tokens.",
)
def full_length_for_the_state(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * chunk) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("q2", "The table inside a chunk has no decay.")
def table_without_decay(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (Q @ K.T).tril() @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("q2", "The table inside a chunk has no causal mask.")
def chunk_sees_its_future(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).abs()).exp()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("q2", "You start from an empty state and not from the one that is given.")
def starts_empty(q, k, v, g, state, chunk):
    S, o = torch.zeros_like(state), []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("q2", "The numbers are right, but it goes token by token. Compute a chunk at once.")
def still_token_by_token(q, k, v, g, state, chunk):
    S, o = state, []
    for t in range(len(q)):
        S = math.exp(g) * S + torch.outer(k[t], v[t])
        o.append(q[t] @ S)
    return torch.stack(o), S


@mistake(
    "q2",
    "The numbers are right, but this is the parallel form: its table has T x T entries, whatever the chunk.",
)
def one_table(q, k, v, g, state, chunk):
    i = torch.arange(len(q)).double()
    D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
    o = (g * (i + 1)).exp()[:, None] * (q @ state) + (D * (q @ k.T)) @ v
    S = math.exp(g * len(q)) * state + ((g * (len(q) - 1 - i)).exp()[:, None] * k).T @ v
    return o, S


@also_right("q2")
def weights_folded_in(q, k, v, g, state, chunk):
    outputs, S = torch.empty_like(v), state.clone()
    for start in range(0, len(q), chunk):
        stop = min(start + chunk, len(q))
        n = stop - start
        power = torch.tensor([math.exp(g * p) for p in range(n + 1)], dtype=q.dtype)
        inner = q[start:stop] @ k[start:stop].T
        i, j = torch.tril_indices(n, n)
        weight = torch.zeros(n, n, dtype=q.dtype)
        weight[i, j] = inner[i, j] * power[i - j]
        carried = torch.einsum("tk,kv->tv", q[start:stop], S)
        outputs[start:stop] = power[1:, None] * carried + weight @ v[start:stop]
        written = torch.einsum("t,tk,tv->kv", power[:n].flip(0), k[start:stop], v[start:stop])
        S = power[n] * S + written
    return outputs, S


# --- q3: the denominator that vanishes ------------------------------------------------------------------------


@mistake(
    "q3",
    "Numbers just above -1 are 2^-bits apart. Half of that, 2^-(bits + 1), already rounds to -1.",
    of="zero_below",
)
def without_the_half(bits):
    return -bits * math.log(2)


@mistake("q3", "That is in powers of two. e^x = 2^y means x = y log 2.", of="zero_below")
def in_powers_of_two(bits):
    return -(bits + 1.0)


@mistake("q3", "The size is right. x is negative.", of="zero_below")
def wrong_sign(bits):
    return (bits + 1) * math.log(2)


@mistake(
    "q3",
    "That is the spacing of numbers at 1. Just above -1, on the side of 0, they are twice as dense.",
    of="zero_below",
)
def spacing_above_one(bits):
    return -(bits - 1) * math.log(2)


@mistake(
    "q3",
    "The features are still 0, as in the suspect: they are rounded before anything else can help.",
    of="repaired",
)
def unchanged(q, k, v):
    a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake(
    "q3",
    "An epsilon turns NaN into 0. The output is a mean of values, and 0 is not that mean.",
    of="repaired",
)
def epsilon(q, k, v):
    a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / (weight.sum(-1, keepdim=True) + 1e-6)


@mistake(
    "q3",
    "A floor under the features makes small ones all alike: the weights are no longer right.",
    of="repaired",
)
def floor(q, k, v):
    a, b = ((torch.nn.functional.elu(x) + 1).clamp(min=1e-6) for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake("q3", "NaN replaced by 0 is still the wrong output, only harder to notice.", of="repaired")
def nan_hidden(q, k, v):
    a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    weight = (a @ b.T).tril()
    return (weight @ v / weight.sum(-1, keepdim=True)).nan_to_num(0.0)


@mistake(
    "q3",
    "The features are right now. Near -60 their products still vanish: e^-120 is no float32. "
    "What can be multiplied into numerator and denominator?",
    of="repaired",
)
def two_branches(q, k, v):
    a, b = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake("q3", "float64 moves the limit from -17 to -37. It does not remove it.", of="repaired")
def suspect_in_double(q, k, v):
    a, b = (torch.nn.functional.elu(x.double()) + 1 for x in (q, k))
    weight = (a @ b.T).tril()
    return (weight @ v.double() / weight.sum(-1, keepdim=True)).float()


@mistake("q3", "A floor under the denominator turns NaN into 0, which is not the mean either.", of="repaired")
def floor_under_the_denominator(q, k, v):
    a, b = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True).clamp(min=1e-30)


@mistake(
    "q3",
    "One maximum for all queries cancels, but it does not lift a query that is small beside another.",
    of="repaired",
)
def one_maximum_for_all_queries(q, k, v):
    a, b = (torch.where(x > 0, x.clamp(min=0).log1p(), x) for x in (q, k))
    weight = ((a - a.max()).exp() @ b.exp().T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake(
    "q3",
    "One maximum for all keys cancels, but early keys are then lost beside a later, larger one.",
    of="repaired",
)
def one_maximum_for_all_keys(q, k, v):
    a, b = (torch.where(x > 0, x.clamp(min=0).log1p(), x) for x in (q, k))
    weight = (a.exp() @ (b - b.max()).exp().T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@mistake("q3", "A factor for each key does not cancel: it changes how much that key counts.", of="repaired")
def every_key_rescaled(q, k, v):
    a, b = (torch.where(x > 0, x.clamp(min=0).log1p(), x) for x in (q, k))
    a, b = ((x - x.amax(-1, keepdim=True)).exp() for x in (a, b))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)


@also_right("q3", of="repaired")
def in_double(q, k, v):
    a, b = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (q.double(), k.double()))
    weight = (a @ b.T).tril()
    return (weight @ v.double() / weight.sum(-1, keepdim=True)).float()


@also_right("q3", of="repaired")
def as_a_softmax(q, k, v):
    a, b = (torch.where(x > 0, x.clamp(min=0).log1p(), x) for x in (q, k))
    score = (a[:, None] + b).logsumexp(-1)  # the logarithm of the weight
    hidden = torch.ones_like(score).triu(1).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v


# --- q4: when must a state start to err? ----------------------------------------------------------------------


@mistake("q4", "That is one head. The noises of H heads are averaged.", of="predicted_pairs")
def one_head(K, H, accuracy):
    return 1 + K / NormalDist().inv_cdf(accuracy) ** 2


@mistake(
    "q4", "Averaging H independent noises divides the variance by H, not by H squared.", of="predicted_pairs"
)
def heads_squared(K, H, accuracy):
    return 1 + H * H * K / NormalDist().inv_cdf(accuracy) ** 2


@mistake(
    "q4",
    "A sign is wrong on one side only: the probability is Phi(z), not that of |noise| < z.",
    of="predicted_pairs",
)
def two_sided(K, H, accuracy):
    return 1 + H * K / NormalDist().inv_cdf((1 + accuracy) / 2) ** 2


@mistake("q4", "z is a standard deviation, (n - 1)/(HK) a variance: square z.", of="predicted_pairs")
def not_squared(K, H, accuracy):
    return 1 + H * K / NormalDist().inv_cdf(accuracy)


@mistake(
    "q4",
    "HK is where exact recall ends for the best keys. Random keys err much earlier.",
    of="predicted_pairs",
)
def as_many_as_entries(K, H, accuracy):
    return H * K


@mistake("q4", "The formula is the prediction. Draw keys and values, and count.", of="measured_pairs")
def formula_as_measurement(K, H, accuracy, seed):
    return 1 + H * K / NormalDist().inv_cdf(accuracy) ** 2


@mistake(
    "q4",
    "All heads have the same keys here. Then they make the same error, and averaging does nothing.",
    of="measured_pairs",
)
def same_keys(K, H, accuracy, seed):
    gen = torch.Generator().manual_seed(seed)
    n, right = 2, 1.0
    while right > accuracy:
        n += max(1, n // 20)
        k = torch.nn.functional.normalize(torch.randn(max(4, 2000 // n), n, K, generator=gen), dim=-1)
        v = torch.randn(len(k), n, 32, generator=gen).sign()
        right = ((k @ (k.mT @ v)).sign() == v).double().mean().item()
    return n


@mistake(
    "q4",
    "You count a pair only if all its signs are right. The share of right signs is asked.",
    of="measured_pairs",
)
def whole_values(K, H, accuracy, seed):
    gen = torch.Generator().manual_seed(seed)
    n, right = 2, 1.0
    while right > accuracy:
        n += max(1, n // 20)
        k = torch.randn(max(8, 2000 // n), H, n, K, generator=gen)
        k = k / k.norm(dim=-1, keepdim=True)
        v = torch.randn(len(k), 1, n, 32, generator=gen).sign()
        read = (k @ (k.mT @ v)).mean(1, keepdim=True)
        right = (read.sign() == v).all(-1).double().mean().item()
    return n


@mistake(
    "q4",
    "These keys are orthogonal while n is at most K, so they do not err before. Draw them at random.",
    of="measured_pairs",
)
def orthogonal_keys(K, H, accuracy, seed):
    gen = torch.Generator().manual_seed(seed)
    n, right = 2, 1.0
    while right > accuracy:
        n += max(1, n // 20)
        base = torch.linalg.qr(torch.randn(max(4, 2000 // n), H, K, K, generator=gen)).Q
        k = base.repeat(1, 1, n // K + 1, 1)[:, :, :n]
        v = torch.randn(len(k), 1, n, 32, generator=gen).sign()
        read = (k @ (k.mT @ v)).mean(1, keepdim=True)
        right = (read.sign() == v).double().mean().item()
    return n


@mistake(
    "q4",
    "With HK pairs exact recall is still possible: give each head K of them. One more is too many.",
    of="must_err",
)
def already_at_the_rank(K, H):
    return H * K


@mistake("q4", "That is one head. H heads have H states.", of="must_err")
def rank_of_one_head(K, H):
    return K + 1


@mistake(
    "q4",
    "K x V entries are in the state, but rank counts: a head's recall has rank K at most.",
    of="must_err",
)
def entries_of_the_state(K, H):
    return H * K * K + 1


@also_right("q4", of="measured_pairs")
def keys_not_normalised(K, H, accuracy, seed):
    gen = torch.Generator().manual_seed(seed)
    n, right = 2, 1.0
    while right > accuracy:
        n += max(1, n // 25)
        k = torch.nn.functional.normalize(torch.randn(max(8, 3000 // n), H, n, K, generator=gen), dim=-1) * K
        v = torch.randn(len(k), 1, n, 32, generator=gen).sign()
        read = torch.einsum("bhnk,bhmk,bmv->bnv", k, k, v[:, 0])
        right = (read * v[:, 0] > 0).double().mean().item()
    return n


# --- q5: from which length on is a state the smaller memory? --------------------------------------------------


@mistake(
    "q5",
    "That is the package's map, which lists x1 x2 and x2 x1 apart. Count each product once.",
    of="feature_width",
)
def products_repeated(K, order):
    return sum(K**p for p in range(order + 1))


@mistake(
    "q5",
    "Those are the products of exactly `order` entries. Those of fewer, and the 1, are features too.",
    of="feature_width",
)
def highest_order_alone(K, order):
    return math.comb(K + order - 1, order)


@mistake("q5", "Squares are products too: an entry may be taken more than once.", of="feature_width")
def without_squares(K, order):
    return sum(math.comb(K, p) for p in range(order + 1))


@mistake("q5", "The constant 1, the product of no entries, is a feature as well.", of="feature_width")
def without_the_one(K, order):
    return math.comb(K + order, order) - 1


@mistake("q5", "The denominator is a column of the state: V + 1 numbers for each feature.", of="break_even")
def no_denominator(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * V * state_bytes // ((K + V) * cache_bytes) + 1


@mistake("q5", "The cache holds keys and values: K + V numbers a token.", of="break_even")
def values_alone(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) * state_bytes // (V * cache_bytes) + 1


@mistake(
    "q5", "You counted entries. State and cache entries take different numbers of bytes.", of="break_even"
)
def entries_for_bytes(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) // (K + V) + 1


@mistake(
    "q5", "One token short: there the cache is at most as large as the state, not larger.", of="break_even"
)
def one_token_short(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) * state_bytes // ((K + V) * cache_bytes)


@mistake(
    "q5", "At equality the cache is as large as the state, not larger: go one token further.", of="break_even"
)
def rounded_up(K, V, order, state_bytes, cache_bytes):
    return -(-math.comb(K + order, order) * (V + 1) * state_bytes // ((K + V) * cache_bytes))


@mistake("q5", "The bytes are exchanged: state entries take state_bytes.", of="break_even")
def bytes_exchanged(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) * cache_bytes // ((K + V) * state_bytes) + 1


@mistake("q5", "The cache holds values too: K + V numbers a token.", of="break_even")
def keys_alone(K, V, order, state_bytes, cache_bytes):
    return math.comb(K + order, order) * (V + 1) * state_bytes // (K * cache_bytes) + 1


@mistake("q5", "The state is K' x (V + 1), as wide as the features, not K x (V + 1).", of="break_even")
def state_of_the_keys(K, V, order, state_bytes, cache_bytes):
    return K * (V + 1) * state_bytes // ((K + V) * cache_bytes) + 1


@mistake(
    "q5",
    "The cache holds keys as they are, K numbers. Only the state is as wide as the features.",
    of="break_even",
)
def cache_of_features(K, V, order, state_bytes, cache_bytes):
    width = math.comb(K + order, order)
    return width * (V + 1) * state_bytes // ((width + V) * cache_bytes) + 1


@also_right("q5", of="feature_width")
def counted_by_order(K, order):
    total, term = 1, 1
    for p in range(1, order + 1):
        term = term * (K + p - 1) // p
        total += term
    return total


@also_right("q5", of="break_even")
def counted_up(K, V, order, state_bytes, cache_bytes):
    state, tokens = math.comb(K + order, order) * (V + 1) * state_bytes, 0
    while tokens * (K + V) * cache_bytes <= state:
        tokens += 1
    return tokens
