# %% [markdown] q4 derive, 3 points, 20 minutes, level 2
# ## Bounds by design
#
# HGRN2 learns a lower bound for the gates of each layer: from one number a layer, $\lambda_0, \dots,
# \lambda_{L-1}$ (for each channel; take one channel), it makes
#
# $$
# \gamma_l = \sum_{m=1}^{l} \operatorname{softmax}(\lambda)_m, \qquad \gamma_0 = 0 ,
# $$
#
# so that the bounds rise from layer to layer and stay below 1. A gate $\alpha_t \ge \gamma_l$ cannot forget
# faster than with some half-life: the *shortest half-life* of the layer.
#
# 1. What is the shortest half-life of layer $l$, in tokens, for given $\lambda$? (0 for layer 0. No bound of any
#    other layer is nearer to 0 or 1 than one part in a million.)
# 2. The other way round: you want the layers, two or more, to start with given shortest half-lives, 0 for
#    layer 0 and rising, so that no share of the softmax is below $10^{-12}$. Which $\lambda$ does that? Many do;
#    return the one with mean 0.

# %% answer q4
import itertools
def shortest_half_life(logits, layer):
    """In tokens; logits is a list of L numbers, layer from 0."""
    # BEGIN SOLUTION
    if layer == 0:
        return 0.0
    x = torch.tensor(logits, dtype=torch.float64)
    kept = x[1 : layer + 1].logsumexp(0)
    rest = torch.cat([x[:1], x[layer + 1 :]]).logsumexp(0)
    # the bound is the sigmoid of kept - rest
    return math.log(2) / torch.logaddexp(rest - kept, 0 * kept).item()
    # END SOLUTION


def logits_for(half_lives):
    """L numbers of mean 0; half_lives[0] is 0, the others rise."""
    # BEGIN SOLUTION
    bounds = [0.0] + [2 ** (-1 / life) for life in half_lives[1:]]
    steps = [b - a for a, b in itertools.pairwise(bounds)]
    share = [-math.expm1(-math.log(2) / half_lives[-1]), *steps]
    logs = [math.log(x) for x in share]
    mean = sum(logs) / len(logs)
    return [x - mean for x in logs]
    # END SOLUTION

# %% [markdown] solution q4
# A gate of $\gamma$ at every token leaves $\gamma^n$ after $n$ tokens, so the half-life is $\ln
# 2/(-\ln\gamma)$, and $\gamma = 2^{-1/h}$. The softmax's shares are the *steps* between bounds, $p_l =
# \gamma_l - \gamma_{l-1}$ for $l\ge 1$; what is left, $p_0 = 1 - \gamma_{L-1}$, is the share that the sum
# leaves out. It is what keeps the top layer's bound below 1: if the sum began at $m = 0$, as it is printed,
# $\gamma_{L-1}$ would be 1 for any $\lambda$. A softmax is inverted by a logarithm, up to a constant. With
# $\lambda = 0$, where training starts, the bounds are $l/L$: in a model of 24 layers the top one cannot
# have a half-life below 16 tokens, and the middle one may forget half within one.

# %% checks q4
def _uneven_shares(rng, before_division):
    """Return logits whose shares of the softmax, added up before they are divided or after, are a hair less than 1."""
    while True:
        logits = [float(x) for x in rng.normal(size=int(rng.integers(3, 8)))]
        shares = torch.softmax(torch.tensor(logits, dtype=torch.float64), 0)
        sums = [(shares[0] + shares[1:].sum()).item(), sum(shares.tolist())]
        if before_division:
            first, *others = (math.exp(x - max(logits)) for x in logits)
            sums = [(first + sum(others)) / sum((first, *others))]
        if max(sums) < 1:
            return logits


@define_question(INFO["q4"], shortest_half_life=shortest_half_life, logits_for=logits_for)
def q4(rng):
    calls = []
    logits = [float(x) for x in rng.normal(size=6)]
    layers = [(logits, layer) for layer in (0, 1, 5, 2, 3, 4)]
    mixed = [0.5, -1.0, 2.0, 0.0, 1.0]  # in no order
    layers += [(mixed, layer) for layer in (1, 2, 3)] + [([0.0, 0.0, -3000.0, -3000.0, -3000.0], 1)]
    far = ([900.0, 901.0, 899.0], 2), ([-900.0, -901.0, -3900.0], 2)
    for given, layer in (*layers, ([0.0] * 24, 23), ([0.0, 0.0], 1), *far):
        inputs = f"{len(given)} layers, layer {layer}"
        calls.append(Call("shortest_half_life", (given, layer), inputs, Close(1e-9)))
    for before_division in (True, True, False, False):
        calls.append(Call("shortest_half_life", (_uneven_shares(rng, before_division), 0), "layer 0", Close(1e-9)))
    low, high = float(rng.uniform(-13.7, -13.0)), float(rng.uniform(12.3, 13.0))
    ends = (([0.0, low], 1, "near 0"), ([0.0, high, low, high], 3, "near 1"), ([0.0, 13.8], 1, "near 1"))
    for given, layer, where in ends:  # bounds that are about one part in a million from 0 or 1
        inputs = f"{len(given)} layers, layer {layer}, a bound {where}"
        calls.append(Call("shortest_half_life", (given, layer), inputs, Close(1e-8)))
    steps = [float(x) for x in rng.uniform(0.3, 8.0, size=5)]
    rising = [0.0, *(sum(steps[:n]) for n in range(1, 6))]
    for lives in (rising, [0.0, 1.0], [0.0, 0.5, 4.0, 32.0, 256.0]):
        calls.append(Call("logits_for", (lives,), f"{len(lives)} layers", Close(1e-9)))
    close = [0.0, 1.0, 1000.0, 1000.001]  # a share of 7e-10
    calls.append(Call("logits_for", (close,), "4 layers, two of nearly one half-life", Close(1e-6)))
    closer = [0.0, 1.0, 1000.0, 1000.0001]  # a share of 7e-11, of which six digits are left
    calls.append(Call("logits_for", (closer,), "4 layers, two of nearly one half-life", Close(1e-5)))
    closest = [0.0, 1.0, 1000.0, 1000.0 + float(rng.uniform(1.5e-6, 1.7e-6))]  # one of 1.1e-12, of which three are left
    calls.append(Call("logits_for", (closest,), "4 layers, two of nearly one half-life", Close(1e-3)))
    early = [0.0, 0.0503, 0.0503 + 4e-9, 1.0]  # one as small, near 0, where many more digits are left
    calls.append(Call("logits_for", (early,), "4 layers, two of nearly one half-life near 0", Close(1e-6)))
    many = [0.0, *(1.0 + m for m in range(99))]  # shares whose product is less than any number
    calls.append(Call("logits_for", (many,), "100 layers, half-lives 0 to 99", Close(1e-8)))
    spans = ((0.052, 0.06), (0.09, 0.11), (0.3, 2), (50, 500), (2e5, 5e5))  # of bounds from near 0 to near 1
    wide = [0.0, *(float(rng.uniform(*span)) for span in spans)]
    inputs = f"{len(wide)} layers, half-lives from {wide[1]:.2g} to {wide[-1]:,.0f}"
    calls.append(Call("logits_for", (wide,), inputs, Close(1e-8)))
    for _ in range(40):  # few layers or one, in any order, also with ties and far from 0
        given = rng.normal(size=int(rng.integers(1, 9))) * rng.choice([0, 1, 2]) + rng.choice([-1000, 0, 1000])
        given = [float(x) for x in (given.round() if rng.uniform() < 0.3 else given)]
        layer = int(rng.choice([0, len(given) - 1, rng.integers(len(given))]))
        calls.append(Call("shortest_half_life", (given, layer), f"{len(given)} layers, layer {layer}", Close(1e-9)))
        n = int(rng.integers(1, 8))  # half-lives from one part in a million to the other, no two too close
        lives = [0.0, *(math.exp(-2.98 + 16.42 * (m + float(rng.uniform(0.0, 0.9))) / n) for m in range(n))]
        calls.append(Call("logits_for", (lives,), f"{n + 1} layers, half-lives up to {lives[-1]:,.3g}", Close(1e-8)))
    return calls
