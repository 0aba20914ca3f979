# %% [markdown] q5 diagnose, 4 points, 30 minutes, level 2
# ## A gate from its symptoms
#
# Four programs for a gated layer are each wrong in one way:
#
# - `"A"`: the decay of a token is applied after its write instead of before, so that its own write decays
#   too;
# - `"B"`: in chunks, the first token of a chunk does not decay the state that it is handed;
# - `"C"`: a token reads the state of the token before, without its own decay, plus its own write; what is
#   handed on is right;
# - `"D"`: every decay is applied twice.
#
# To tell them apart, run them on the plainest input there is: $K = V = 1$ and $q_t = k_t = v_t = 1$, a log
# decay of $-1$ for each token, eight tokens in chunks of 4. Three of the four gave the outputs in
# `symptoms`. Which is which?
#
# Then write what all four give on this kind of input, for log decays from 0 down to $-1000$, and what the right program gives.
# Someone who ports a layer keeps such a function: it names the fault from one run.

# %% given q5
symptoms = {
    "first": [1.0, 2.0, 2.368, 2.503, 2.553, 2.571, 2.578, 2.581],
    "second": [0.368, 0.503, 0.553, 0.571, 0.578, 0.581, 0.581, 0.582],
    "third": [1.0, 1.368, 1.503, 1.553, 2.553, 1.939, 1.713, 1.63],
}

# %% answer q5
first = None
# BEGIN SOLUTION
first = "C"
# END SOLUTION
second = None
# BEGIN SOLUTION
second = "A"
# END SOLUTION
third = None
# BEGIN SOLUTION
third = "B"
# END SOLUTION


def outputs(fault, log_decay, chunk):
    """Outputs [T] for log_decay [T] and a fault, "A" to "D", or "none"."""
    # BEGIN SOLUTION
    S, o = 0.0, []
    for t, g in enumerate(log_decay.tolist()):
        alpha = math.exp(2 * g if fault == "D" else g)
        if fault == "B" and t and t % chunk == 0:
            alpha = 1.0
        before = S
        S = alpha * (S + 1) if fault == "A" else alpha * S + 1
        o.append(before + 1 if fault == "C" else S)
    return torch.tensor(o, dtype=log_decay.dtype)
    # END SOLUTION

# %% [markdown] solution q5
# With $q = k = v = 1$ an output is the sum of what is left of all writes. The right program begins with 1
# and goes to $1/(1-e^{-1}) = 1.582$. **A** starts at $e^{-1}$, since a token never sees its own write
# whole, and stays below by that factor. **C** is right at the first token, which has nothing before it, and
# from then on the past counts $e$ times too much: it is the step of RWKV, read before write, given to
# weights that were trained for the other. **B** is right in the first chunk and wrong at every edge, by an
# amount that fades within the chunk; with weak decays it hides below rounding. **D** is what a port gets
# that takes $\log\alpha$ for $\ln\alpha^{1/2}$, or applies a temperature once too often: it starts right
# and goes to $1/(1-e^{-2}) = 1.157$.

# %% checks q5
@define_question(
    INFO["q5"],
    first=first,
    second=second,
    third=third,
    outputs=outputs,
    wrong_values={
        "first": {
            "A": "There the very first output is too small: the token's own write has decayed. Here it is 1.",
            "B": "There the whole first chunk is right. Here the second token is wrong already.",
            "D": "There the past counts too little: outputs stay below the right ones.",
        },
        "second": {
            "B": "There the whole first chunk is right. Here the first token is wrong already.",
            "C": "There the first output is 1, as it should be: nothing is read before the first write.",
            "D": "There the first output is 1: no decay acts on a write that has just been made.",
        },
        "third": {
            "A": "There the first output is already wrong. Here the first four are right.",
            "C": "There the second output is 2: the past lacks a decay at every token, not only at an edge.",
            "D": "There the second output is wrong. Here the first four are right.",
        },
    },
)
def q5(rng):
    calls = [Call(name, (), "", Exactly()) for name in ("first", "second", "third")]
    for fault in ("none", "A", "B", "C", "D"):
        drawn = int(rng.integers(9, 14))
        sizes = [(8, 4, -2.0), (drawn, 3, -4.0), (60, 7, -100.0), (61, 7, -1000.0), (6, 1, -2.0), (5, 9, -2.0)]
        sizes += [(9, 8, -1.0), (10, 6, -1.0)]  # two equal parts would end elsewhere
        short = [(1, int(rng.integers(1, 4)), -2.0)]
        for T in map(int, rng.integers(2, 20, size=7)):  # also chunks of one token, or next to the length
            chunk = int(rng.choice([1, T - 1, T, T + 1, rng.integers(1, T)]))
            short.append((T, chunk, float(rng.choice([-0.1, -4, -1000]))))
        for T, chunk, least in (*sizes, (300, 11, -0.02), *short, (130, 16, -1000.0)):
            log_decay = torch.from_numpy(rng.uniform(least, 0.0, size=T))
            if (T, chunk, least) in short:  # some tokens forget nothing, others all
                log_decay[torch.from_numpy(rng.uniform(size=T) < rng.choice([0, 0.3]))] = 0.0
                log_decay[torch.from_numpy(rng.uniform(size=T) < rng.choice([0, 0.3]))] = -1000.0
            if T == 60:
                log_decay[5:55] = least  # powers overflow, from whatever token they count
            if T == 61:  # some tokens forget all, and those after them hardly anything
                log_decay /= -least
                log_decay[1::3] = least
            if T == 130:  # all forget all, and no finite mask is enough
                log_decay[:] = least
            if T == 300:
                log_decay[::2] = 0.0  # every second token forgets nothing
            inputs = f"fault {fault}, T = {T}, chunks of {chunk}, log decays down to {log_decay.min():.3g}"
            calls.append(Call("outputs", (fault, log_decay, chunk), inputs, Close(1e-9)))
    return calls
