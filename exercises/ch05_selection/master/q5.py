# %% [markdown] q5 diagnose, 4 points, 25 minutes, level 2
# ## Four faults of a delta rule
#
# Four programs for the gated delta rule of exercise 5.4 are each wrong in one way:
#
# - `"A"`: in the triangular system of a chunk, the strengths multiply the columns of $KK^\top$ instead of
#   its rows (the right side keeps $\operatorname{diag}(\beta)V$);
# - `"B"`: the strictly lower part of that system has the wrong sign;
# - `"C"`: the decay comes after erasing and writing instead of before;
# - `"D"`: what is erased is what the key recalled before the decay: $S_t = (\alpha_t I - \beta_t k_t^\top
#   k_t)\,S_{t-1} + \beta_t k_t^\top v_t$.
#
# All else is right, the decays in the system too. Run them on a plain input: $K = V = 1$, $q_t = k_t =
# v_t = 1$, an empty state, one chunk of six tokens, $\alpha_t = \frac12$ for each and the strengths
# $\frac12, 1, \frac12, 1, \frac12, 1$. The right program gives 0.5, 1, 0.75, 1, 0.75, 1. Three of the
# four gave the outputs in `symptoms`. Which is which?
#
# Then write what all four give on this kind of input, for strengths from $10^{-8}$ to 50 and log decays down to
# $-30$, and what the right program gives.

# %% given q5
symptoms = {
    "first": [0.5, 0.75, 0.5, 0.75, 0.5, 0.75],
    "second": [0.5, 1.125, 0.562, 1.031, 0.516, 1.008],
    "third": [0.25, 0.5, 0.375, 0.5, 0.375, 0.5],
}

# %% answer q5
first = None
# BEGIN SOLUTION
first = "D"
# END SOLUTION
second = None
# BEGIN SOLUTION
second = "A"
# END SOLUTION
third = None
# BEGIN SOLUTION
third = "C"
# END SOLUTION


def outputs(fault, beta, log_decay):
    """Outputs [T] for beta and log_decay [T] and a fault, or "none"."""
    # BEGIN SOLUTION
    S, R, o = 0.0, 0.0, []             # R: what A takes for the state
    for b, g in zip(beta.tolist(), log_decay.tolist()):
        alpha = math.exp(g)
        R = alpha * R if fault == "A" else alpha * S
        erased = {"A": R, "B": -b * R, "C": b * S, "D": b * S}
        u = b - erased.get(fault, b * R)
        R = R + b * u
        S = alpha * (S + u) if fault == "C" else alpha * S + u
        o.append(S)
    return torch.tensor(o, dtype=beta.dtype)
    # END SOLUTION

# %% [markdown] solution q5
# With one number of state the right rule is $S_t = (1-\beta_t)\,\alpha_t S_{t-1} + \beta_t$. A strength
# of 1 empties the state, so every second output is 1, the value itself. This is what the programs break.
#
# **C** is $\alpha_t$ times something, so its first output is too small already: a write fades before it
# is read. With equal decays it is the right program's output times $\alpha$, here halved. Fault A of
# exercise 3.5 has the same order of steps.
#
# **D** is right at the first token. At the second it takes away 0.5, what was there before the decay, and
# 0.25 is left: the factor of the state is $\alpha - \beta = -\frac12$, so that a strength of 1 erases too
# much. The rule replaces only where $\alpha = 1$.
#
# **A** is never far off. Its system is $(I + \operatorname{strict\,lower}(P\odot
# KK^\top)\operatorname{diag}(\beta))\,U = \operatorname{diag}(\beta)\,V$: token $i$ erases the *earlier*
# tokens' share $\beta_j$ of what they wrote, all of it, whatever its own $\beta_i$ is. At the second
# token that is half of the 0.25 that is there. If all strengths are equal, rows and columns are the same
# and nothing can be seen: a test with $\beta = 1$ or a single strength would pass.
#
# **B** adds what the key recalls instead of taking it away, $S_t = (1+\beta_t)\,\alpha_t S_{t-1} +
# \beta_t$: 0.5, 1.5, 1.625, ... With $\beta = 1$ and no decay the state doubles with each token, and a
# loss of NaN is what one sees.

# %% checks q5
@define_question(
    INFO["q5"],
    first=first,
    second=second,
    third=third,
    outputs=outputs,
    wrong_values={
        "first": {
            "A": "There the second output is above 1: too little is erased. Here it is 0.75.",
            "B": "There the second output is above 1: what the key recalls is added. Here it is 0.75.",
            "C": "There the first output is already too small: the token's own write has decayed. Here it is right.",
        },
        "second": {
            "B": "There what the key recalls is added instead of taken away: the second output is further off, and the last one 3.469.",
            "C": "There the first output is already too small. Here it is right.",
            "D": "There too much is erased, and the second output is below 1. Here it is above.",
        },
        "third": {
            "A": "There the first output is right: no system does anything to the first token of an empty state.",
            "B": "There the first output is right, and the second too large.",
            "D": "There the first output is right: an empty state has nothing to erase, before the decay or after.",
        },
    },
)
def q5(rng):
    calls = [Call(name, (), "", Exactly()) for name in ("first", "second", "third")]
    for fault in ("none", "A", "B", "C", "D"):
        for T, most, least in ((6, 1.0, -2.0), (int(rng.integers(18, 25)), 3.0, -0.1), (60, 1.0, -30.0)):
            beta = torch.from_numpy(rng.uniform(0.1, most, size=T))
            beta[1::3] = 1.0
            beta[2::6], beta[3::6] = float(rng.uniform(0.001, 0.05)), 0.9 * most
            log_decay = torch.from_numpy(rng.uniform(least, 0.0, size=T))
            if T == 60:
                log_decay[10:50] = least  # a long run of them
            inputs = f"fault {fault}, T = {T}, strengths up to {most:g}, log decays down to {least:g}"
            calls.append(Call("outputs", (fault, beta, log_decay), inputs, Close(1e-9)))
        beta = torch.from_numpy(rng.uniform(0.8, 1.5, size=40))  # all of a long text matters for each token
        log_decay = torch.from_numpy(rng.uniform(-0.02, 0.0, size=40))
        calls.append(Call("outputs", (fault, beta, log_decay), f"fault {fault}, T = 40, hardly any decay", Close(1e-9)))
        for T in (1, *(int(n) for n in rng.integers(2, 10, size=24))):  # strengths and gates of all kinds
            beta = torch.from_numpy(rng.uniform(0.01, 2.0, size=T))
            log_decay = torch.from_numpy(rng.uniform(rng.choice((-0.1, -2.0, -30.0)), 0.0, size=T))
            for x, same in ((beta, 1.0), (log_decay, 0.0), (log_decay, -30.0)):
                x[torch.from_numpy(rng.uniform(size=T) < rng.choice((0.0, 0.4, 0.9)))] = same
            calls.append(Call("outputs", (fault, beta, log_decay), f"fault {fault}, T = {T}", Close(1e-9)))
        for sizes, text in (([1.5e-8] * 6, "strengths near 1e-8"), ([1.5e-8, 50, 0.5, 1.5e-8, 50, 0.5], "strengths from 1e-8 to 50")):
            beta = torch.from_numpy(rng.permutation(sizes) * rng.uniform(0.7, 1, size=6))
            log_decay = torch.from_numpy(rng.uniform(-0.1, 0.0, size=6))
            calls.append(Call("outputs", (fault, beta, log_decay), f"fault {fault}, T = 6, {text}", Close(1e-9)))
        for least in (-30.0, *rng.uniform((-29.5, -28.0), (-28.0, -26.0)).tolist()):  # of so much even e^-30 is something
            beta = torch.from_numpy(rng.uniform(30.0, 50.0, size=9))
            log_decay = torch.from_numpy(rng.uniform(-0.1, 0.0, size=9))
            beta[0], beta[4], log_decay[4] = 50.0, 1e-8, least
            inputs = f"fault {fault}, T = 9, strengths up to 50, with a log decay of {least:.3g} among them"
            calls.append(Call("outputs", (fault, beta, log_decay), inputs, Close(1e-9)))
    return calls
