"""Known answers to question 2: a chunk form that forgets."""

import math

import torch

from linattn_exercises.known_mistakes import also_right, mistake


@mistake("The state handed on from the chunk before is read as it was. Token i has decayed it i + 1 times.")
def old_state_not_decayed(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append(Q @ S + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("Off by one where a chunk begins: its first token has decayed the old state once, not zero times.")
def edge_off_by_one(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * i).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("What is handed on is off by one: the last token of a chunk has not been decayed when it ends.")
def handed_on_off_by_one(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("What a chunk writes is handed on without decay. Its first token has been decayed C - 1 times.")
def written_not_decayed(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + K.T @ V
    return torch.cat(o), S


@mistake("The old state is handed on as if one token had passed. A chunk decays it C times.")
def decayed_once_a_chunk(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("The last chunk is shorter, and you decayed the state as if it had the full length.")
def full_length_at_the_end(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * chunk) * S + ((g * (chunk - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake(
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


@mistake("The state is brought up to date before the chunk reads it, so tokens read what comes after them.")
def updated_before_reading(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
    return torch.cat(o), S


@mistake("The old state is handed on without decay. A chunk of C tokens multiplies it by gamma^C.")
def state_never_decayed(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("Your mask hides the token itself. The step writes before it reads.")
def itself_hidden(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril(-1)
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("The decays of what is handed on run the wrong way: the first token of a chunk has waited longest.")
def waiting_reversed(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * i).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake(
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


@mistake("The table inside a chunk has no decay.")
def table_without_decay(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (Q @ K.T).tril() @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("The table inside a chunk has no causal mask.")
def chunk_sees_its_future(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).abs()).exp()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("You start from an empty state and not from the one that is given.")
def starts_empty(q, k, v, g, state, chunk):
    S, o = torch.zeros_like(state), []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake(
    "The numbers are right, but it takes as many operations as a loop over tokens, or as a scan. Compute a chunk at once, "
    "by a table.",
)
def still_token_by_token(q, k, v, g, state, chunk):
    S, o = state, []
    for t in range(len(q)):
        S = math.exp(g) * S + torch.outer(k[t], v[t])
        o.append(q[t] @ S)
    return torch.stack(o), S


@mistake(
    "The numbers are right, but this is the parallel form: its table has T x T entries, whatever the chunk.",
)
def one_table(q, k, v, g, state, chunk):
    i = torch.arange(len(q)).double()
    D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
    o = (g * (i + 1)).exp()[:, None] * (q @ state) + (D * (q @ k.T)) @ v
    S = math.exp(g * len(q)) * state + ((g * (len(q) - 1 - i)).exp()[:, None] * k).T @ v
    return o, S


def _by_chunks(q, k, v, g, state, chunk, table=None, old=1, end=1):
    """The chunk form; `table` makes the decays of a chunk, `old` and `end` are those at its first and last token."""
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk), strict=True):
        i = torch.arange(len(Q)).double()
        gap = i[:, None] - i
        D = table(gap) if table else (g * gap.clamp(min=0)).exp().tril()
        inner = (D * (Q @ K.T)) @ V
        o.append(inner if old is None else (g * (i + old)).exp()[:, None] * (Q @ S) + inner)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - end - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S


@mistake("The old state is missing: a token also reads what came before its chunk.")
def own_chunk_alone(q, k, v, g, state, chunk):
    return _by_chunks(q, k, v, g, state, chunk, old=None)


@mistake("One decay too many within a chunk: token i reads token j through gamma^(i - j), and itself whole.")
def one_power_more(q, k, v, g, state, chunk):
    return _by_chunks(q, k, v, g, state, chunk, lambda gap: (g * (gap + 1).clamp(min=0)).exp().tril())


@mistake("One decay too few within a chunk: token i reads token j through gamma^(i - j).")
def one_power_less(q, k, v, g, state, chunk):
    return _by_chunks(q, k, v, g, state, chunk, lambda gap: (g * (gap - 1).clamp(min=0)).exp().tril())


@mistake(
    "You decay after the write. The step decays the old state first: gamma^(i + 1) at the start, gamma^(C - 1 - i) at the end."
)
def decayed_after_the_write(q, k, v, g, state, chunk):
    return _by_chunks(q, k, v, g, state, chunk, old=0, end=0)


@mistake(
    "Above the diagonal the exponent is positive and overflows; infinity times 0 is no number. Mask before exp."
)
def masked_after_exp(q, k, v, g, state, chunk):
    return _by_chunks(q, k, v, g, state, chunk, lambda gap: (g * gap).exp() * (gap >= 0))


@mistake(
    "The table of decays is right on paper. gamma^i times gamma^-j is 0 times infinity: form i - j first."
)
def powers_of_the_table_apart(q, k, v, g, state, chunk):
    def table(gap):
        i = gap[:, 0]
        return ((g * i).exp()[:, None] * (-g * i).exp()).tril()

    return _by_chunks(q, k, v, g, state, chunk, table)


@mistake("The numbers are right, and your chunks are shorter than `chunk`, so there are too many of them.")
def chunks_too_short(q, k, v, g, state, chunk):
    return _by_chunks(q, k, v, g, state, min(chunk, 16))


@also_right()
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
