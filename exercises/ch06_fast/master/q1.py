# %% [markdown] q1 derive, 3 points, 15 minutes, level 1
# ## Which batch is free?
#
# A model of $P$ parameters in bfloat16 writes one token for each of `batch` sequences. For this step every parameter is read
# once, whatever the batch; every sequence has its own cache or state, of which `cache` bytes move. A sequence
# takes $2P$ FLOPs (those of its attention are left out). The GPU moves `rate` bytes and does `peak` FLOPs a second, both at the same time. $P$ is a million or more.
#
# 1. How many seconds does a step take at least?
# 2. From which batch on (a real number) does arithmetic take as long as memory? `math.inf` if at none (all others lie between 0.001 and $2\cdot 10^{14}$).
# 3. The cache has `per_token` bytes for each token of the context. At which context (a real number of tokens, between 0.001
#    and $10^{11}$) does a step of this batch take twice as long as at context 0?

# %% answer q1
def step_seconds(P, batch, cache, rate, peak):
    """The least time of a step."""
    # BEGIN SOLUTION
    return max((2 * P + batch * cache) / rate, 2 * P * batch / peak)
    # END SOLUTION


def ridge_batch(P, cache, rate, peak):
    """The batch at which arithmetic takes as long as memory."""
    # BEGIN SOLUTION
    gap = 2 * P / peak - cache / rate   # by which arithmetic catches up
    return 2 * P / rate / gap if gap > 0 else math.inf
    # END SOLUTION


def double_context(P, batch, per_token, rate, peak):
    """The context at which a step takes twice as long."""
    # BEGIN SOLUTION
    start = step_seconds(P, batch, 0, rate, peak)
    return (2 * start * rate - 2 * P) / (batch * per_token)
    # END SOLUTION

# %% [markdown] solution q1
# Memory takes $(2P + bc)/W$, arithmetic $2Pb/F$. Each sequence adds $2P/F$ to one and $c/W$ to the other, so arithmetic catches up only if $2P/F > c/W$:
# if a sequence's cache is smaller than $2PW/F$ bytes. On an H200 ($W$ about 4.3 TB/s, $F$ about 800 TFLOP/s) that is 0.5 % of the model's bytes. Softmax
# models of 7 to 65 billion parameters outgrow that after 130 to 270 tokens, those of 8 to 70 billion whose heads share keys and values after 650 to 2,300, and from then on no batch is large enough to keep the tensor cores busy. A model
# with a state stays below it, or above it, for good. In 3. the FLOPs do not depend on the context, so that it is always memory which reaches twice
# the time, but twice *the larger* of the two times at context 0.

# %% checks q1
@define_question(
    INFO["q1"], step_seconds=step_seconds, ridge_batch=ridge_batch, double_context=double_context
)
def q1(rng):
    calls = []
    tie = 2.0 ** int(rng.integers(30, 36))  # a cache that grows as fast as the arithmetic: never
    calls.append(Call("ridge_batch", (tie, tie / 64, 2.0**42, 2.0**49), "as many bytes as FLOPs allow", Within(1.000001)))
    nearly = 2.0**33, 2.0**27 * (1 - 2.0**-40), 2.0**42, 2.0**49  # and one that grows less fast by a hair
    calls.append(Call("ridge_batch", nearly, "nearly as many bytes as FLOPs allow", Within(1.000001)))
    nearly = tie, 2 * tie * (1 - 2.0**-47), 2.0**42, 2.0**42
    calls.append(Call("ridge_batch", nearly, "nearly as many bytes as FLOPs allow, as many FLOPs as bytes a second", Within(1.000001)))
    few = 2.0**20                           # of a small model that is less than 1e-7 bytes
    nearly = few, few / 64 * (1 - 2.0**-40), 2.0**42, 2.0**49
    calls.append(Call("ridge_batch", nearly, "nearly as many bytes as FLOPs allow, a small model", Within(1.000001)))
    below, above = (0.15, 0.4), (0.6, 0.85)  # of half a sequence
    for low, high, part, other in ((40, 80, below, above), (400, 900, above, below)):  # batches on both sides of where arithmetic begins to decide
        P, rate, per_token = (float(10 ** rng.uniform(*span)) for span in ((8, 11), (11.6, 12.9), (3, 6)))
        turn = int(rng.integers(low, high)) + float(rng.uniform(*part))
        peak = rate * turn
        gpu = f"{rate:.3g} bytes/s, {peak:.3g} FLOP/s"
        for share in (0.0, float(rng.uniform(0.1, 0.4)), float(rng.uniform(0.55, 0.8))):  # of the cache with which it never does
            ridge = math.floor(turn / (1 - share)) + float(rng.uniform(*other)) if share else turn
            cache = 2 * P * rate / peak * (1 - turn / ridge)
            near = math.floor(ridge), math.floor(ridge) + 1
            for batch in (1, *near, *(round(part * ridge) for part in (0.3, 0.6, 0.8, 1.25, 1.6, 3))):
                text = f"P = {P:.3g}, batch {batch}, {gpu}"
                inputs = P, batch, cache, rate, peak
                calls.append(Call("step_seconds", inputs, f"{text}, cache {cache:.3g} bytes", Within(1.000001)))
                if not cache:
                    inputs, text = (P, batch, per_token, rate, peak), f"{text}, {per_token:.4g} bytes a token"
                    calls.append(Call("double_context", inputs, text, Within(1.000001)))
    P, rate = (float(10 ** rng.uniform(*span)) for span in ((8, 11), (11.6, 12.9)))
    peak, gpu = rate * float(rng.uniform(0.3, 0.6)), "a machine that moves more bytes than it does FLOPs"
    for share in rng.uniform((0.3, 0.7, 1.2), (0.5, 0.9, 3.0)).tolist():
        cache = share * 2 * P * rate / peak
        calls.append(Call("ridge_batch", (P, cache, rate, peak), f"P = {P:.3g}, cache {cache:.3g} bytes, {gpu}", Within(1.000001)))
        for batch in (1, int(rng.integers(2, 60))):
            text = f"P = {P:.3g}, batch {batch}, {gpu}"
            calls.append(Call("step_seconds", (P, batch, cache, rate, peak), f"{text}, cache {cache:.3g} bytes", Within(1.000001)))
            per_token = float(10 ** rng.uniform(3, 6))
            calls.append(Call("double_context", (P, batch, per_token, rate, peak), f"{text}, {per_token:.4g} bytes a token", Within(1.000001)))
    for n in range(12):
        P = float(10 ** rng.uniform(7, 11 if n not in (3, 4) else 7.1))
        rate, peak = float(10 ** rng.uniform(11.3, 12.9)), float(10 ** rng.uniform(13.5 if n not in (3, 4) else 15, 15.2))
        if n in (5, 6):  # a machine that moves nearly as much as it computes
            peak = rate * float(rng.uniform(*((0.3, 0.8) if n == 5 else (1.5, 3.0))))
        if n == 7:  # a context of less than a token
            P, rate, peak = 1e7, 1e12, float(10 ** rng.uniform(13.9, 14.5))
        ridge = 2 * P * rate / peak  # bytes of cache from which on no batch is enough
        near = ridge * (1 - 10 ** -rng.uniform(*((8.6, 9) if n == 3 else (4, 6))))  # a batch of millions
        kinds = [0.0, ridge * rng.uniform(0.01, 0.9), ridge * rng.uniform(1.1, 20), near]
        cache = float(kinds[n] if n < 4 else 0.9 * ridge if n == 4 else rng.choice(kinds))  # n = 4: seconds are few
        cache = 0.0 if n in (5, 6) else cache
        batch = int(rng.choice([1, rng.integers(2, 60), rng.integers(200, 4000)]) if n else rng.integers(2000, 4000))
        if n == 5:  # arithmetic takes longer, whatever the batch
            batch = 1
        if n == 2:  # too large for memory alone, and memory takes longer all the same
            batch = int(4 * peak / rate) + 1
        gpu = f"{rate:.3g} bytes/s, {peak:.3g} FLOP/s"
        text = f"P = {P:.3g}, cache {cache:.3g} bytes, {gpu}"
        calls.append(
            Call("step_seconds", (P, batch, cache, rate, peak), f"{text}, batch {batch}", Within(1.000001))
        )
        calls.append(Call("ridge_batch", (P, cache, rate, peak), text, Within(1.000001)))
        per_token = float(10 ** rng.uniform(3, 6))
        batch, per_token = (4000, 1e6) if n == 7 else (batch, per_token)
        if n == 8:  # a context of nearly a hundred thousand million tokens
            P, batch = float(10 ** rng.uniform(10.9, 11)), 1
            per_token = 2 * P / float(rng.uniform(9.1e10, 9.9e10))
        calls.append(
            Call(
                "double_context",
                (P, batch, per_token, rate, peak),
                f"P = {P:.3g}, batch {batch}, {per_token:.4g} bytes a token, {gpu}",
                Within(1.000001),
            )
        )
    for turn, slow in rng.uniform((372, 1.01e-3), (380, 1.1e-3), (2, 2)).tolist():
        P, rate = (float(10 ** rng.uniform(*span)) for span in ((7, 11), (11.6, 12.9)))
        gpu = f"{rate:.3g} bytes/s, {slow * rate:.3g} FLOP/s"  # a batch far below 1
        calls.append(Call("ridge_batch", (P, 0.0, rate, slow * rate), f"P = {P:.3g}, cache 0 bytes, {gpu}", Within(1.000001)))
        gpu = f"1e+12 bytes/s, {turn * 1e12:.5g} FLOP/s"  # and a context of hardly a thousandth of a token
        calls.append(Call("double_context", (1e7, 4000, 1e8, 1e12, turn * 1e12), f"P = 1e+07, batch 4000, 1e+08 bytes a token, {gpu}", Within(1.000001)))
    for _ in range(4):                      # a small model, with which seconds are few
        P, batch, per_token, rate = float(rng.uniform(1.0e6, 1.1e6)), int(rng.integers(1, 60)), float(10 ** rng.uniform(3, 6)), float(10 ** rng.uniform(12.85, 12.9))
        text = f"P = {P:.4g}, batch {batch}, {per_token:.4g} bytes a token, {rate:.3g} bytes/s, 8e+14 FLOP/s"
        calls.append(Call("double_context", (P, batch, per_token, rate, 8e14), text, Within(1.000001)))
        calls.append(Call("step_seconds", (P, batch, 0.0, rate, 8e14), f"P = {P:.4g}, batch {batch}, cache 0 bytes, {rate:.3g} bytes/s, 8e+14 FLOP/s", Within(1.000001)))
    return calls
