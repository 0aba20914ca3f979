# %% [markdown] q2 diagnose, 4 points, 20 minutes, level 2
# ## Which of four copies?
#
# Loss falls when a model reads a passage for the second time. Is this copying? A model may also have picked up what the passage
# is about, and which words it likes, or simply do better further on in a window. Here the *same* passage stands at the *same* place of a
# window, after three different beginnings:
#
# | array | what stands before the passage |
# | --- | --- |
# | `other` | another passage of the same book |
# | `shuffled` | the words of the passage, in another order |
# | `second` | the passage itself |
#
# Each array has the losses of four models on the passage's bytes, [4, T]. In another order, whole words
# can still be copied, but seldom anything across the end of one.
#
# 1. `copying(other, shuffled, second)`: for each model the share of its mean loss on `shuffled` that goes away on `second`, [4].
# 2. `adapting(other, shuffled, second)`: for each model the share of its mean loss on `other` that goes away on `shuffled`, [4].
# 3. `which(other, shuffled, second)`: the index of the one model that copies, whose share in 1 is the largest, by 0.0001 or more. Any of the four may adapt, or be better.
#
# A model may be sure of all bytes, but no mean loss is below $10^{-8}$.

# %% answer q2
def copying(other, shuffled, second):
    """Share of the loss saved by the order of the words, [4]."""
    # BEGIN SOLUTION
    return 1 - second.mean(1) / shuffled.mean(1)
    # END SOLUTION


def adapting(other, shuffled, second):
    """Share of the loss saved by knowing the words, [4]."""
    # BEGIN SOLUTION
    return 1 - shuffled.mean(1) / other.mean(1)
    # END SOLUTION


def which(other, shuffled, second):
    """The index of the model that copies."""
    # BEGIN SOLUTION
    return int(copying(other, shuffled, second).argmax())
    # END SOLUTION

# %% [markdown] solution q2
# Between `other` and `shuffled` the words become known, and nothing else changes. Between `shuffled` and `second` their order becomes
# known. An effect is what changes between two conditions that differ in one thing; `second` against `other` differs in two.
# The model with the lowest loss at the second reading may be the one that had the lowest from the start, and the one that gains most from
# `other` to `second` may be the one that adapts best.
#
# The chapter's own probe has no such control: it compares the second reading of a passage with its first, at
# another place of the window, where there is less to go by. On prose its ratio is 0.97 to 0.99 for all four,
# so neither is much there. On code the linear models' 0.82 to 0.87 may be adaptation. That LLaMA's 0.33 is not, we conclude from the
# others, who can adapt as well and gain a fifth at most. It is a conclusion and not a control.


# %% checks q2
def _any_models(rng):
    """Losses of four models on a passage of one byte on; some are 0, effects are of either sign."""
    T, copier = int(rng.integers(1, rng.choice((6, 60)))), int(rng.integers(4))
    rows = rng.gamma(0.5, 2.0, (3, 4, T)) * (rng.random((3, 4, T)) < rng.choice((0.5, 1.0)))
    rows[1:] = rows[1:] if rng.random() < 0.5 else rows[0]
    rows[..., rng.integers(T)] += 0.1
    knows, copies = rng.uniform((-1.6, -1.6), (0.95, 0.05), (4, 2)).T
    copies[copier] = rng.uniform(0.1, 1.0)
    least = rng.choice((-2.0, -6.0))  # some models are sure of all bytes, next to which an epsilon is not small
    means = 10 ** rng.uniform(least, 1, 4) * np.stack([np.ones(4), 1 - knows, (1 - knows) * (1 - copies)])
    if least < -2:  # one, and more often the copier, is as sure as a model may be
        sure = copier if rng.random() < 0.5 else rng.integers(4)
        means[:, sure] *= 1.01e-8 / means[:, sure].min()
    means *= np.maximum(1.0, 1.01e-8 / means.min(0))  # and none is surer
    return tuple(rows * (means / rows.mean(-1))[..., None])


def _choose_otherwise(other, shuffled, second):
    """Models that other shares choose: of the first or last nine tenths, of losses above 0, against a median, or the lower of two losses."""
    T = other.shape[1]
    start, early, end = T // 10, T // 20, T - T // 10
    above, both = (np.where(x > 0, x, np.nan) for x in (shuffled, second))
    seen = np.where(shuffled > 0, second, np.nan)
    shares = {
        "start": 1 - second[:, start:].mean(1) / np.maximum(shuffled[:, start:].mean(1), 1e-9),
        "twentieth": 1 - second[:, early:].mean(1) / np.maximum(shuffled[:, early:].mean(1), 1e-9),
        "zeros": 1 - np.nanmean(both, 1) / np.nanmean(above, 1),
        "zeros of one": 1 - np.nanmean(seen, 1) / np.nanmean(above, 1),
        "median": (shuffled - second).mean(1) / np.maximum(np.median(shuffled, 1), 1e-9),
        "least": 1 - second.mean(1) / np.minimum(other.mean(1), shuffled.mean(1)),
        "end": 1 - second[:, :end].mean(1) / np.maximum(shuffled[:, :end].mean(1), 1e-9),
    }
    return {name: int(share.argmax()) for name, share in shares.items()}


def _models_with_roles(rng, own):
    """Losses of four models, one of which copies, and the index of that one; `own` says what it is besides, or saves on."""
    T = int(rng.integers(200, 400))
    copier, *others = rng.permutation(4).tolist()
    roles = dict(zip(("adapter", "best", "last"), others, strict=True))
    if own in roles:                                  # what the copier is besides
        roles[own] = copier
    level = rng.uniform(0.9, 1.3, 4)
    level[roles["best"]] = rng.uniform(0.05, 0.07)    # lowest at the second reading, too
    knows = rng.uniform(0.02, 0.06, 4)
    knows[roles["adapter"]] = rng.uniform(0.5, 0.6)   # gains most from other to second
    copies = rng.uniform(0.0, 0.02, 4)
    copies[copier] = rng.uniform(0.2, 0.6)
    if own == "best":                                 # saves little, and fewer nats than another
        copies[[copier, others[1]]] = rng.uniform(0.09, 0.105), 0.03
    if own == "adapter":                              # saves a small part of what other words cost, since it adapts
        knows[copier] = rng.uniform(0.85, 0.88)
        copies[[copier, others[1]]] = rng.uniform(0.09, 0.105), 0.03
    if own == "last":                                 # another is worse in the right order
        copies[others[0]] = -0.7
    if own == "other words":                          # it copies, but loses by other words
        knows[copier] = rng.uniform(-0.1, -0.05)
        copies[others[1]] = 0.06                      # another saves less, but on all bytes
    if own in ("dear", "cheap"):                      # another saves nearly as much, of all bytes alike, and has more to lose
        copies[[copier, others[1]]] = 0.1, 0.097
        level[copier] = rng.uniform(0.03, 0.05)
    hard = rng.gamma(0.5, 2.0, T)
    hard = np.tile(hard / hard.mean(), (4, 1))
    hard[roles["last"]] *= np.linspace(2.5, 0.2, T)   # better further on, whatever stands before
    rows = [level[:, None] * hard * np.exp(0.02 * rng.normal(size=(4, T))) for _ in range(3)]
    other, shuffled, second = rows
    shuffled = shuffled * (1 - knows)[:, None]
    second = second * ((1 - knows) * (1 - copies))[:, None]
    if own in ("other words", "dear", "cheap"):       # it saves on bytes that cost much, or little, and on no others
        second[copier] /= 1 - copies[copier]
        order = second[copier].argsort()
        own_bytes = order[: 3 * T // 4] if own == "cheap" else order[-(T // 3) :]
        second[copier, own_bytes] *= 1 - copies[copier] * second[copier].sum() / second[copier, own_bytes].sum()
    else:
        second[copier, : T // 10] /= 1 - copies[copier]  # at first there is nothing to go by
    second[copier, second[copier].argsort()[: T // 20]] *= 50.0  # bytes that cost nearly nothing, a bit more than that
    return (other, shuffled, second), copier


def _leads(losses, copier):
    """Whether the copier's share is above all others by a little more than the text says."""
    shares = copying(*losses)
    return bool((shares[copier] > np.delete(shares, copier) + 1.2e-4).all())


@define_question(INFO["q2"], copying=copying, adapting=adapting, which=which)
def q2(rng):
    calls = []
    for n, own in enumerate(3 * ("other words", "best", "adapter", "last", "dear", "cheap")):
        losses, copier = _models_with_roles(rng, own)
        while not _leads(losses, copier):
            losses, copier = _models_with_roles(rng, own)
        text = f"models {n + 1}, T = {losses[0].shape[1]}"
        for name in ("copying", "adapting"):
            calls.append(Call(name, losses, text, Close(1e-9)))
        calls.append(Call("which", losses, text, Exactly()))
    some = [_any_models(rng) for _ in range(100)]
    T, copier = int(rng.integers(5, 30)), int(rng.integers(4))
    bytes_of = np.array([3.0, 2.0, 1.0])[:, None, None] * rng.uniform(0.5, 1.5, (4, T))  # next to nothing, and the copier by a hair
    bytes_of[2] = 0.49 * bytes_of[1]
    bytes_of[2, copier] *= 0.48987 / 0.49
    bytes_of[:, copier] *= 1.001e-8 / bytes_of[2, copier].mean()
    some.append(tuple(bytes_of))
    rival = (copier + int(rng.integers(1, 4))) % 4   # the other way round: the one that is behind by a hair has next to nothing
    bytes_of = np.array([3.0, 2.0, 1.0])[:, None, None] * rng.uniform(0.5, 1.5, (4, T))
    bytes_of[2] = np.array([0.6, 0.7])[rng.integers(0, 2, 4), None] * bytes_of[1]
    bytes_of[2, copier], bytes_of[2, rival] = 0.48987 * bytes_of[1, copier], 0.49 * bytes_of[1, rival]
    bytes_of[:, rival] *= 1.001e-8 / bytes_of[2, rival].mean()
    some.append(tuple(bytes_of))
    for name in 2 * ("start", "twentieth", "end", "zeros", "zeros of one", "median", "least"):  # another share would choose another model
        losses = _any_models(rng)
        while _choose_otherwise(*losses)[name] == which(*losses):
            losses = _any_models(rng)
        some.append(losses)
    for only in (0, -1):                             # of many bytes, the first or the last alone makes the copier
        T, copier = int(rng.integers(100, 200)), int(rng.integers(4))
        bytes_of = np.array([1.6, 1.0, 0.5])[:, None, None] * rng.uniform(0.5, 1.5, (4, T))
        bytes_of[2] = 0.5 * bytes_of[1]
        bytes_of[2, copier] *= 1.005
        bytes_of[1:, copier, only] = 5.0, 0.0
        some.append(tuple(bytes_of))
    for losses in some:
        for name in ("copying", "adapting", "which"):
            how = Exactly() if name == "which" else Close(1e-9)
            calls.append(Call(name, losses, f"four models, T = {losses[0].shape[1]}", how))
    return calls
