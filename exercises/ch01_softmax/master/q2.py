# %% [markdown] q2 diagnose, 3 points, 10 minutes, level 1
# ## A loss that is too good
#
# A colleague trains a language model with the attention below. Its loss falls far below that of the
# reference; its generated text is much worse. Every weight of a hidden key is zero; she has checked that.
#
# Find the fault and say which it is:
#
# - `"A"`: the scores have the wrong scale;
# - `"B"`: the softmax runs over queries instead of keys;
# - `"C"`: the denominator counts keys that it should not;
# - `"D"`: the mask hides the token itself;
# - `"E"`: large scores overflow;
# - `"F"`: the mask is transposed.
#
# Then repair it. The check includes sequences in which a future key has a score of about 1000 or a million, or visible
# ones of about $-3000$ or $-100{,}000$, or some thousands apart, for some queries in one order and for others in the reverse.

# %% given q2
def suspect(q, k, v):                          # [T, K], [T, K], [T, V]
    score = q @ k.T * q.shape[-1] ** -0.5      # [T, T], row = query
    weight = score.softmax(-1).tril()
    return weight @ v

# %% answer q2
fault = None
# BEGIN SOLUTION
fault = "C"
# END SOLUTION


def repaired(q, k, v):
    """Causal softmax attention of one head: [T, K], [T, K], [T, V]."""
    # BEGIN SOLUTION
    score = q @ k.T * q.shape[-1] ** -0.5
    hidden = torch.ones_like(score).triu(1).bool()
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v
    # END SOLUTION

# %% [markdown] solution q2
# C. The mask removes future *values*, but the softmax has already divided by a sum over all keys, future
# ones too. The output shrinks where much is to come: row $t$ is multiplied by the share of weight that lies
# in the past, a number computed from the future. One number per head is enough. The score of the next
# token's key is part of that sum, so a model can learn to read from it which token comes next. In our runs
# chapter 1's small model, trained with this fault, has 0.13 and 0.16 bits per byte in full passes, where
# the right one has 2.94 and 2.97; given the prefix alone, as in generation, it needs 4.2 (two seeds, 240
# steps on a CPU; `python -m linattn_benchmarks late_mask --out DIR` measures it again). Changing the
# future and watching the past, as in the chapter, finds the fault at once; looking at the weights of hidden
# keys does not.
#
# Dividing each row by its sum afterwards repairs it on paper. In floating point it divides 0 by 0 where a
# future key has all the weight.

# %% checks q2
def _two_futures(rng, T, size, K=4):
    """q, k, v with a future key whose score is about `size` for all queries before it."""
    q, k, v = (torch.from_numpy(rng.normal(size=(T, n))) for n in (K, K, 3))
    q[:, 0], k[:, 0] = 1.0, 0.0
    k[-2, 0] = K**0.5 * size
    return q, k, v


def _far_apart(rng, T, S, K=4, V=3):
    """q, k, v with scores 800 apart or equal. What is large for some queries is small for others.

    The largest and the smallest stand in the middle.
    """
    q, k, v = (torch.from_numpy(rng.normal(size=shape)) for shape in ((T, K), (S, K), (S, V)))
    level = torch.from_numpy(rng.integers(1, 4, size=S)).double()
    level[S // 2 - 1], level[S // 2] = 0.0, 4.0
    q[:, 0], k[:, 0] = torch.from_numpy(rng.choice([-1.0, 1.0], size=T)), 800 * K**0.5 * level
    return q, k, v


def _mixed(rng, T, S, K, V):
    """q, k, v with scores of a few levels, in any order; some keys twice, some rows of zeros."""
    q, k, v = (torch.from_numpy(rng.normal(size=shape)) for shape in ((T, K), (S, K), (S, V)))
    if rng.random() < 0.6:
        level = rng.choice([-3000.0, -800.0, 0.0, 0.0, 1000.0, 3000.0], size=S if rng.random() < 0.6 else 1)
        q[:, 0], k[:, 0] = 1.0, torch.from_numpy(level) * K**0.5
        q[rng.random(T) < rng.choice([0.0, 0.4]), 0] = -1.0
    for rows in (q, k):
        if rng.random() < 0.3:
            rows[rng.integers(len(rows))] = 0.0
    k[rng.integers(S)] = k[rng.integers(S)].clone()
    return q, k, v


CLOSE = Close(3e-7)  # results may be stored in float32; a small number in the denominator shows


@define_question(
    INFO["q2"],
    fault=fault,
    repaired=repaired,
    wrong_values={
        "fault": {
            "A": "The scale is 1/sqrt K, as it should be. Change a future key and look at an earlier output.",
            "B": "softmax(-1) runs along a row, over the keys of one query. Look at what a row adds up to instead.",
            "D": "tril() keeps the diagonal, so each token sees itself. What do the rows of `weight` add up to?",
            "E": "torch's softmax subtracts the maximum; it does not overflow. What do the rows add up to?",
            "F": "Row = query, and tril() keeps earlier keys: not transposed. What do the rows add up to?",
        }
    },
)
def q2(rng):
    small = _two_futures(rng, 6, 1.0, 7)
    calls = [Call("fault", (), "", Exactly())]
    calls.append(Call("repaired", small, "T = 6", CLOSE))
    calls.append(Call("repaired", _two_futures(rng, 9, 1000.0), "T = 9, a future score near 1000", CLOSE))
    low = _two_futures(rng, 9, 0.0)
    low[1][:-1, 0] = -6000.0  # all scores but the last key's near -3000
    calls.append(Call("repaired", low, "T = 9, visible scores near -3000", CLOSE))
    calls.append(Call("repaired", _two_futures(rng, 5, 738.0), "T = 5, a future score near 738", CLOSE))
    calls.append(Call("repaired", _two_futures(rng, 9, 1e6), "T = 9, a future score near a million", CLOSE))
    zeros = _two_futures(rng, 9, 1.0)
    zeros[0][5], zeros[1][2] = 0.0, 0.0  # scores that are exactly 0, visible ones and hidden ones
    calls.append(Call("repaired", zeros, "T = 9, a query and a key of zeros", CLOSE))
    far = _two_futures(rng, 9, 0.0)
    far[1][:, 0] = -200_000.0
    calls.append(Call("repaired", far, "T = 9, all scores near -100,000", CLOSE))
    rising = _two_futures(rng, 9, 0.0)
    rising[0][1::2, 0], rising[1][:, 0] = -1.0, torch.arange(9) * 800.0  # and falling for every other query
    calls.append(Call("repaired", rising, "T = 9, each visible score 400 above or below the one before", CLOSE))
    calls.append(Call("repaired", _far_apart(rng, 40, 40), "T = 40, visible scores up to 3200 apart", CLOSE))
    for T, V in ((5, 1), (1, 3), (100, 3)):
        single = [torch.from_numpy(rng.normal(size=(T, n))) for n in (4, 4, V)]
        calls.append(Call("repaired", tuple(single), f"T = {T}, V = {V}", CLOSE))
    for K in (1, 1, 1, 2, 3, 4, 5) * 2:
        T, V = int(rng.integers(1, 6)), int(rng.integers(1, 6))
        calls.append(Call("repaired", _mixed(rng, T, T, K, V), f"T = {T}, K = {K}, V = {V}", CLOSE))
    return calls
