# %% [markdown] q1 measure, 3 points, 15 minutes, level 2
# ## What the square root assumes
#
# The scale $1/\sqrt K$ makes scores of size 1 if query and key are *independent*. A trained head has
# queries that look for their keys. Take a key with independent entries of mean 0 and variance 1, normally
# distributed, and a query
#
# $$
# q = \rho\,k + \sqrt{1 - \rho^2}\; \varepsilon,
# $$
#
# where $\varepsilon$ is another such vector, independent of $k$. Each entry of $q$ still has variance 1,
# whatever $\rho \in [0, 1]$; its correlation with the entry of $k$ is $\rho$.
#
# Predict the size $\sqrt{\mathbb E[(q\cdot k)^2]}$ of the unscaled score, as a formula in $K$ and $\rho$.
# The check calls the formula with $K$ up to $10^{15}$, so do not count entries one by one. Then measure the
# size on $n$ pairs whose $k$ and $\varepsilon$ are given. The check draws its own, and wants both numbers to
# many digits; compare the two yourself, for a few $n$. From about which $\rho$ on does the mean of the score
# outweigh the rest?

# %% given q1
def draw(n, K, seed=0):
    """k and epsilon [n, K] of n pairs."""
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, K, generator=gen, dtype=torch.float64)

# %% answer q1
def predicted_size(K, rho):
    """The root of the mean square of q . k, as a formula."""
    # BEGIN SOLUTION
    mean, variance = rho * K, K * (1 + rho**2)
    return math.sqrt(mean**2 + variance)
    # END SOLUTION


def measured_size(k, noise, rho):
    """The same over n pairs: k [n, K], noise [n, K]."""
    # BEGIN SOLUTION
    q = rho * k + math.sqrt(1 - rho**2) * noise
    return (q * k).sum(-1).square().mean().sqrt().item()
    # END SOLUTION

# %% [markdown] solution q1
# One term is $q_c k_c = \rho k_c^2 + \sqrt{1-\rho^2}\, \varepsilon_c k_c$, of mean $\rho$ and variance
# $2\rho^2 + (1 - \rho^2) = 1 + \rho^2$. The $K$ terms are independent, so the score has mean $\rho K$ and
# variance $K(1+\rho^2)$, and the mean square is $\rho^2K^2 + K(1 + \rho^2)$. Independent vectors give the
# $\sqrt K$ of the chapter. From about $\rho = 1/\sqrt K$ on the first term is the larger one and the score
# grows like $K$: at $K = 128$ a correlation of 0.09 is enough. So $1/\sqrt K$ is right at initialisation,
# and a head that has learnt to align $q$ with $k$ gets sharper the wider it is. That is the argument for a
# scale of $1/K$ when a width is to be changed without tuning again ([Yang et al.
# 2022](https://arxiv.org/abs/2203.03466)).

# %% checks q1
@define_question(INFO["q1"], predicted_size=predicted_size, measured_size=measured_size)
def q1(rng):
    calls = []
    for K, rho in [(2, 0.9), (1, 0.65), (64, 0.0), (128, float(rng.uniform(0.1, 0.3))), (16, 1.0)]:
        inputs = f"K = {K}, rho = {rho:.2f}"
        calls.append(Call("predicted_size", (K, rho), inputs, Within(1.000001)))
        n = int(rng.integers(300, 700))
        k, noise = torch.from_numpy(rng.normal(size=(2, n, K)))
        calls.append(Call("measured_size", (k, noise, rho), f"{n} pairs, {inputs}"))
    k, noise = torch.from_numpy(rng.normal(size=(2, 1, 3)))  # nearly the same, and not the same
    for rho in (0.999995, 1.0):
        calls.append(Call("measured_size", (k, noise, rho), f"pairs: 1, K = 3, rho = {rho:g}"))
    k, noise = torch.from_numpy(rng.uniform((0.5, 3), (1, 4), size=(3, 2))).T.reshape(2, 1, 3)
    for rho in (1 - 5e-7, 1 - 9e-10):
        calls.append(Call("measured_size", (k, noise, rho), f"pairs: 1, K = 3, rho = {rho:.10g}"))
    k, noise = torch.from_numpy(rng.uniform((0.009, 0.004), (0.011, 0.006))).reshape(2, 1, 1)  # one score, near 1e-4
    calls.append(Call("measured_size", (k, noise, 0.6), "pairs: 1, K = 1, rho = 0.6, small entries", Within(1.00001)))
    for n in (1, 1, 2, 3, 4):  # few pairs, few entries
        K, rho = 3 if n == 3 else int(rng.integers(1, 6)), float(rng.choice([0.0, 1.0, rng.uniform(0, 1), rng.uniform(0, 1)]))
        k, noise = torch.from_numpy(rng.normal(size=(2, n, K)))
        inputs = f"K = {K}, rho = {rho:.2f}"
        calls.append(Call("predicted_size", (K, rho), inputs, Within(1.000001)))
        calls.append(Call("measured_size", (k, noise, rho), f"pairs: {n}, {inputs}"))
    # too wide for samples: more memory than a process can address, so that no machine tries
    wide, less = int(10 ** rng.uniform(14.5, 15)), int(rng.integers(150_000, 2_000_000))
    alike = [(K, float(rng.uniform(0.5, 2)) / K**0.5) for K in (wide, less)]  # mean and spread count alike
    usual = int(10 ** rng.uniform(3, 5))
    few = (usual, float(rng.uniform(0.2, 1))), (usual, float(rng.uniform(0.01, 0.05)) / usual**0.5)  # one is small beside the other
    K = int(rng.integers(1_000, 3_000))
    between = [(K, float(rng.uniform(*span) / K) ** 0.5) for span in ((100, 200), (200, 300))]
    # many entries and no small rho: the spread still counts in the fourth digit
    tall = [(K, float(rng.uniform(*span)) / K**0.5) for K, span in ((12_000, (12, 20)), (120_000, (10, 20)), (1_500_000, (20, 30)))]
    ends = (10**15, 3e-10), (1000, 0.999995)  # nearly 0, and nearly 1
    # where the mean is 10^3 spreads, and where the spread is 10^3 means
    nearly = (int(rng.integers(780_000, 820_000)), float(rng.uniform(0.93, 0.97))), (10**15, float(rng.uniform(6e-11, 9.5e-11)))
    for K, rho in [*ends, *nearly, (wide, float(rng.uniform(0.1, 0.3))), (wide, 0.0), (less, 0.0), *alike, *few, *between, *tall]:
        inputs = f"K = {K:,}, rho = {rho:.6g}"
        calls.append(Call("predicted_size", (K, rho), inputs, Within(1.000001)))
    return calls
