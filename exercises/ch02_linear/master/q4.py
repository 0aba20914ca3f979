# %% [markdown] q4 measure, 4 points, 35 minutes, level 3
# ## When must a state start to err?
#
# $H$ heads store the same $n$ pairs. Each has keys of its own, independent and uniform on the unit sphere
# in $\mathbb R^K$, and a state $S = \sum_j k_j^\top v_j$; the values have entries $\pm 1$. A pair is read
# with its keys, and the answers of the heads are averaged. The sign of each entry is what counts.
#
# 1. Predict the number of pairs at which the share of right signs has fallen to `accuracy` (between 0.7 and
#    0.97).
# 2. Write the measurement: the share of right signs for vectors and values that are given. The vectors have
#    normally distributed entries, so their directions are uniform; the keys are these vectors, scaled to
#    length 1. An answer of exactly 0 has no sign, and counts as wrong. (The check also has
#    vectors along the axes, where that happens. No other answer is below $10^{-10}$ in size.)
# 3. That was the plain sum with random keys. Now let each head write by any rule that is linear in the
#    values, and read pair $i$ as $q_i S$ with any $q_i$; neither may depend on the values. From how many
#    pairs on is exact recall of all possible values impossible?
#
# Draw vectors yourself and look for the $n$ at which your share falls to `accuracy`: it should be within 10 %
# of what you predicted. Which is better: one head with $K = 64$, or four heads with $K = 16$?

# %% answer q4
def predicted_pairs(K, H, accuracy):
    """Pairs at which the share of right signs is `accuracy`, a formula."""
    # BEGIN SOLUTION
    z = NormalDist().inv_cdf(accuracy)     # signal over noise
    return 1 + H * K / z**2
    # END SOLUTION


def share_right(x, v):
    """The share of right signs: x [H, n, K], v [n, V] of 1 and -1."""
    # BEGIN SOLUTION
    k = x / x.norm(dim=-1, keepdim=True)
    read = (k @ (k.mT @ v)).mean(0)        # [n, V], average of heads
    return (read.sign() == v).double().mean().item()
    # END SOLUTION


def must_err(K, H):
    """The smallest n at which exact recall of all values is impossible."""
    # BEGIN SOLUTION
    return H * K + 1
    # END SOLUTION

# %% [markdown] solution q4
# A head returns $v_i$ plus noise of variance $(n-1)/K$. The noises of heads with independent keys are
# uncorrelated, so their average has $(n-1)/(HK)$, and a sign is right with probability
# $\Phi\bigl(\sqrt{HK/(n-1)}\bigr)$. Solved for $n$: $n = 1 + HK/z^2$ with $\Phi(z)$ the accuracy. At 95 %
# that is $1 + 0.37\,HK$: a state of 64 entries per value component starts to err visibly at 25 pairs.
#
# The 1 is the pair that is read, which makes no noise for itself. The check allows 5 %, so it takes $HK/z^2$
# too, and what is rounded to whole pairs: among the 36 pairs or more that it asks for, one more moves the share
# by less than 0.003, and a single draw with values of 100 entries scatters by more.
#
# Recall of all heads together is $AX$ with $A = \sum_h Q_h W_h$ of rank at most $HK$. For $n = HK + 1$ no
# such $A$ is the identity, so some values are not recalled. For $n = HK$ one is: give each head $K$ of the
# pairs, with orthonormal keys for those and zero for the rest, and read with $H$ times the key, because the
# answers are averaged. Four heads of 16 and one of 64 are the same in both counts. What matters is the
# number of state entries per value component.

# %% checks q4
@define_question(
    INFO["q4"],
    predicted_pairs=predicted_pairs,
    share_right=share_right,
    must_err=must_err,
)
def q4(rng):
    calls = []
    for K, H, accuracy in ((32, 1, 0.75), (16, 4, 0.85), (48, 2, 0.95), (16, 8, 0.97), (16, 1, 0.7), (8, 16, 0.9), (4, 32, 0.85)):
        inputs = f"K = {K}, H = {H}, accuracy {accuracy}"
        calls.append(Call("predicted_pairs", (K, H, accuracy), inputs, Within(1.05)))
    for K, H, n, V in ((32, 1, 70, 40), (16, 4, 60, 50), (8, 3, 2, 300), (4, 6, 30, 80), (3, 4, 20, 90)):
        x = torch.from_numpy(rng.normal(size=(H, n, K)))
        v = torch.from_numpy(rng.normal(size=(n, V))).sign()
        calls.append(Call("share_right", (x, v), f"K = {K}, H = {H}, n = {n}", Close(1e-6)))
    x = torch.from_numpy(rng.choice([-2.0, 2.0], size=(1, 2, 1)))  # K = 1: what is read is often exactly 0
    v = torch.from_numpy(rng.choice([-1.0, 1.0], size=(2, 60)))
    calls.append(Call("share_right", (x, v), "K = 1, H = 1, n = 2", Close(1e-6)))
    for n, heads, alike in ((1, 3, 1), (1, 3, 1), (2, 2, 1), (2, 1, 0), (3, 2, 1), (4, 1, 0), (4, 1, 1)):  # keys along axes: answers are often 0
        H, K, V = 2 ** int(rng.integers(heads)), int(rng.integers(1, 4)), int(rng.integers(1, 9))  # in any rounding
        K, V = (K, V) if alike else (1, 9)
        axis = torch.eye(K, dtype=torch.float64)[torch.from_numpy(rng.integers(K, size=(H, n)))]
        # of all, as 2 / (2 + 1e-12) is not quite 4 / (4 + 1e-12), which makes no difference for large numbers
        length = float(rng.choice([0.5, 2.0, 4.0])) if alike else torch.from_numpy(2.0 ** (15 + rng.permutation(n))).reshape(1, n, 1)
        x = length * torch.from_numpy(rng.choice([-1.0, 1.0], size=(H, n, 1))) * axis
        v = torch.from_numpy(rng.choice([-1.0, 1.0], size=(n, V)))
        inputs = f"K = {K}, H = {H}, n = {n}, V = {V}, keys along axes"
        calls.append(Call("share_right", (x, v), inputs, Close(1e-6)))
        K, H, accuracy = int(rng.integers(128, 2000)), int(rng.integers(1, 9)), float(rng.uniform(0.7, 0.97))
        inputs = f"K = {K}, H = {H}, accuracy {accuracy:.3f}"
        calls.append(Call("predicted_pairs", (K, H, accuracy), inputs, Within(1.05)))
    for off in (1.5e-5, 2e-3):                     # keys that are nearly opposite: answers are nearly 0, and not 0
        x = torch.tensor([[[1.0, 0.0], [-1.0, off]]], dtype=torch.float64)
        calls.append(Call("share_right", (x, torch.ones(2, 1, dtype=torch.float64)), "K = 2, H = 1, n = 2, keys nearly opposite", Close(1e-6)))
    large = 10**6, 16, float(rng.uniform(0.75, 0.95))  # too large for a prediction that draws samples
    inputs = f"K = {large[0]:,}, H = 16, accuracy {large[2]:.2f}"
    calls.append(Call("predicted_pairs", large, inputs, Within(1.05)))
    few, *many = int(rng.integers(2, 9)), *(int(K) for K in rng.integers(8, 99, size=3))
    for K, H in ((1, 1), (1, few), (many[0], 1), (many[1], 4), (many[2], 3)):
        calls.append(Call("must_err", (K, H), f"K = {K}, H = {H}", Close(1e-9)))
    return calls
