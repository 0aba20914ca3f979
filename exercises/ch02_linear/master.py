# %% [markdown] intro
# # Exercises to chapter 2: kernelised linear attention
#
# Each question has a cell for your answer and a cell that checks it. The check draws inputs from a fixed
# seed, compares your result with a reference, and shows the first entry that is wrong. If it knows the
# mistake, it gives a hint. You can check as often as you like.
#
# The questions follow the sections of the chapter and use its symbols. Vectors are rows, so $k^\top v$ is a
# $K\times V$ matrix. Inputs are float64 tensors unless a question says otherwise; give new tensors the
# dtype of the inputs.
#
# A grader may later run the same questions on other inputs, with 5 seconds of processor time for each. It
# reads the names that the answer cells define, so keep those; you may add cells as you wish.

# %% setup
import math
from statistics import NormalDist

import torch

# %% checks
from linattn_exercises.judging import Close, Exactly, Within
from linattn_exercises.questions import NO_NOISE, About, Case, asks

# %% [markdown] q1 derive, 4 points, 20 minutes, level 2
# ## From a step to a table
#
# RWKV-5 and RWKV-6 ([Peng et al. 2024](https://arxiv.org/abs/2404.05892)) read *before* they write, and let
# the token itself take part with weights of its own. Simplified to one decay $\alpha_t$ for all channels,
# and with a vector $w \in \mathbb R^K$ (their $u$), the step is
#
# $$
# o_t = q_t\bigl(S_{t-1} + (w \odot k_t)^\top v_t\bigr), \qquad S_t = \alpha_t S_{t-1} + k_t^\top v_t ,
# \qquad S_0 = 0 .
# $$
#
# Derive the table $A \in \mathbb R^{T\times T}$ with $O = AV$. Decays come as logarithms, and some of them
# forget within a few tokens: $\log\alpha_t = -40$ is among the inputs.

# %% given q1
def step_by_step(q, k, v, log_decay, w):   # [T, K] twice, [T, V], [T], [K]
    S, o = torch.zeros(q.shape[1], v.shape[1], dtype=q.dtype), []
    for t in range(len(q)):
        write = torch.outer(k[t], v[t])
        o.append(q[t] @ (S + w[:, None] * write))
        S = log_decay[t].exp() * S + write
    return torch.stack(o)

# %% answer q1
def table(q, k, log_decay, w):
    """A [T, T] with step_by_step(q, k, v, log_decay, w) = A @ v."""
    # BEGIN SOLUTION
    c = log_decay.cumsum(0)
    gap = (c - log_decay)[:, None] - c        # log of alpha_{j+1..t-1}
    past = torch.ones_like(gap).tril(-1).bool()
    decay = gap.masked_fill(~past, -torch.inf).exp()
    return decay * (q @ k.T) + torch.diag((q * w * k).sum(-1))
    # END SOLUTION

# %% [markdown] solution q1
# Token $j$ writes at $j$ and is read at $t > j$ out of $S_{t-1}$, so it has been through the decays of
# $j+1, \dots, t-1$: not that of $t$, which comes after the reading, and not its own. With
# $c_t = \sum_{i\le t}\log \alpha_i$ the factor is $e^{c_{t-1} - c_j}$, and on the diagonal stands
# $\sum_c q_{tc}\,w_c\,k_{tc}$. The *difference* must be formed before the exponential. Written as
# $e^{c_{t-1}}\cdot e^{-c_j}$ it is a product of two numbers of which one overflows and the other vanishes,
# after three tokens with $\log\alpha = -40$ in float32. Models differ in whether they read before they
# write; when you port one, check that first.

# %% checks q1
def _sequence(rng, T, K, V):
    return [torch.from_numpy(rng.normal(size=(T, n))) for n in (K, K, V)]


@asks(ABOUT["q1"], table=table)
def q1(rng):
    cases = []
    for T, strength, says in ((6, 0.3, "T = 6"), (1, 0.3, "T = 1"), (40, 1.0, "T = 40")):
        q, k, u = _sequence(rng, T, 3, 3)
        log_decay = -strength * torch.from_numpy(rng.exponential(size=T))
        cases.append(Case("table", (q, k, log_decay, u[0]), says))
    q, k, u = _sequence(rng, 30, 3, 3)
    log_decay = torch.full((30,), -40.0, dtype=torch.float64)
    log_decay[::3] = -0.1
    cases.append(Case("table", (q, k, log_decay, u[0]), "T = 30, log decays down to -40"))
    return cases

# %% [markdown] q2 implement, 5 points, 30 minutes, level 3
# ## A chunk form that forgets
#
# Retention ([Sun et al. 2023](https://arxiv.org/abs/2307.08621)) multiplies the state by one constant
# $\gamma = e^{g}$ at every step, before it writes. Turn the recurrent form into the chunk form: within a
# chunk of `chunk` tokens a table, between chunks the state, and no loop over tokens. The last chunk may be
# shorter, the sequence goes on from a state that is given, and $\gamma$ may be as small as $e^{-20}$.
#
# One of the checks counts: at $T = 512$ in chunks of 64, no tensor may have more entries than
# $512\cdot 64$, and 480 torch operations must do. No library function with `linear_attention` or
# `retention` in its name may be used.

# %% given q2
def recurrent(q, k, v, g, state):   # [T, K] twice, [T, V], number, [K, V]
    S, o = state, []
    for t in range(len(q)):
        S = math.exp(g) * S + torch.outer(k[t], v[t])
        o.append(q[t] @ S)
    return torch.stack(o), S

# %% answer q2
def chunked(q, k, v, g, state, chunk):
    """The output [T, V] and the last state [K, V] of `recurrent`."""
    # BEGIN SOLUTION
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk)):
        i = torch.arange(len(Q), dtype=q.dtype)       # 0 ... C - 1
        gap = i[:, None] - i
        D = (g * gap.clamp(min=0)).exp().tril()       # [C, C]
        since = (g * (i + 1)).exp()[:, None]          # S was handed on
        left = (g * (len(Q) - 1 - i)).exp()[:, None]  # until the end
        o.append(since * (Q @ S) + (D * (Q @ K.T)) @ V)
        S = math.exp(g * len(Q)) * S + (left * K).T @ V
    return torch.cat(o), S
    # END SOLUTION

# %% [markdown] solution q2
# Count decays. Token $i$ of a chunk (from 0) reads the old state after its own decay and those before it in
# the chunk: $\gamma^{i+1}$. It reads token $j \le i$ through $\gamma^{i-j}$. At the end of a chunk of $C$
# tokens the old state has been multiplied $C$ times and what token $i$ wrote $C - 1 - i$ times. For the
# shorter last chunk $C$ is *its* length. Most wrong chunk forms are wrong by one power of $\gamma$ at the
# edge of a chunk, so they agree with the right one wherever $\gamma$ is near 1 or there is only one chunk.
# Test with small $\gamma$, a start state and a ragged end.

# %% checks q2
@asks(ABOUT["q2"], banned=("linear_attention", "retention"), chunked=chunked)
def q2(rng):
    cases = []
    for T, chunk, g in ((8, 4, -0.7), (11, 4, -0.7), (5, 8, -2.0), (6, 1, -0.3), (512, 64, -0.05)):
        q, k, v = _sequence(rng, T, 3, 4)
        state = torch.from_numpy(rng.normal(size=(3, 4)))
        bounds = {"entries": T * max(chunk, 4), "operations": 480} if T == 512 else {}
        says = f"T = {T}, chunks of {chunk}, gamma = {math.exp(g):.2f}"
        cases.append(Case("chunked", (q, k, v, g, state, chunk), says, Close(1e-5), **bounds))
    q, k, v = _sequence(rng, 70, 3, 4)
    says = "T = 70, chunks of 40, gamma = 2e-09"
    cases.append(Case("chunked", (q, k, v, -20.0, torch.from_numpy(rng.normal(size=(3, 4))), 40), says))
    return cases

# %% [markdown] q3 diagnose, 4 points, 25 minutes, level 3
# ## The denominator that vanishes
#
# A model with the attention below trains for a while and then returns NaN, in float32 as in bfloat16. All
# features of `elu(x) + 1` are positive on paper, so the denominator cannot be zero, on paper. Find the
# fault:
#
# - `"A"`: terms of both signs cancel in the denominator;
# - `"B"`: rounding makes `elu(x) + 1` exactly zero for every $x$ below some number;
# - `"C"`: the features overflow;
# - `"D"`: the causal mask leaves a query without any key;
# - `"E"`: the sum of the denominator is taken over queries instead of keys.
#
# Below which $x$ does it strike, if numbers have `bits` significant bits (24 in float32, 11 in float16, 8
# in bfloat16)? And repair it, so that entries of $q$ and $k$ between $-60$ and $5$ give the right output in
# float32, to four digits. Think about what may be multiplied into numerator and denominator without
# changing the output.

# %% given q3
def suspect(q, k, v):                  # [T, K], [T, K], [T, V], float32
    a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)

# %% answer q3
fault = None
# BEGIN SOLUTION
fault = "B"
# END SOLUTION


def zero_below(bits):
    """The x at and below which elu(x) + 1 comes out as exactly 0."""
    # BEGIN SOLUTION
    return -(bits + 1) * math.log(2)
    # END SOLUTION


def repaired(q, k, v):
    """Causal normalised linear attention with the map elu(x) + 1."""
    # BEGIN SOLUTION
    def log_feature(x):
        return torch.where(x > 0, x.clamp(min=0).log1p(), x)

    a, b = log_feature(q), log_feature(k)
    a = (a - a.amax(-1, keepdim=True)).exp()   # cancels in the fraction
    weight = (a @ b.exp().T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)
    # END SOLUTION

# %% [markdown] solution q3
# B. For $x < 0$ the code rounds $e^x - 1$. Numbers just above $-1$ are $2^{-p}$ apart if there are $p$
# significant bits, so everything with $e^x \le 2^{-(p+1)}$ becomes $-1$: below $-17.3$ in float32, $-8.3$
# in float16 and $-6.2$ in bfloat16. Evaluating $e^x$ itself moves the fault from $-17$ to where *products*
# of features vanish: for $q$ and $k$ near $-60$ each term is $e^{-120}$, and float32 ends near $e^{-103}$.
# There the freedom of the fraction helps. Multiplying all features of one query by the same number changes
# numerator and denominator alike; taking $e^{-\max}$ makes its largest feature 1. (A common factor for all
# keys cancels as well, but a key can be near $-60$ while a later one is near 5. A factor for each key does
# not cancel: it is a weight.)
#
# An added $\varepsilon$ turns NaN into 0, which is no repair: the output should be a mean of values. Two
# branches in float64 are right here too, and cost what float64 costs.

# %% checks q3
def _entries(rng, T, low, high):
    q, k = (torch.from_numpy(rng.uniform(low, high, (T, 4))).float() for _ in range(2))
    return q, k, torch.from_numpy(rng.normal(size=(T, 3))).float()


def _two_levels(rng, part):
    """All entries near -60, but those of every second query, or of the later keys, near 5."""
    q, k, v = _entries(rng, 12, -60, -58)
    (q[1::2] if part == "queries" else k[6:]).add_(63.0)
    return q, k, v


@asks(
    ABOUT["q3"],
    fault=fault,
    zero_below=zero_below,
    repaired=repaired,
    wrong_values={
        "fault": {
            "A": "No feature is negative, so nothing cancels. Print the features of x = -20.",
            "C": "Features grow like x, and entries stay below 5. Print the features of x = -20.",
            "D": "tril() keeps the diagonal: every query has at least itself. Print the features of x = -20.",
            "E": "Row = query, and sum(-1) runs over keys, as it should. Print the features of x = -20.",
        }
    },
)
def q3(rng):
    cases = [Case("fault", (), "", Exactly())]
    cases += [Case("zero_below", (bits,), f"{bits} bits", Close(1e-3)) for bits in (24, 11, 8)]
    for low, high in ((-2, 5), (-25, -18), (-60, -50), (-60, 5)):
        says = f"entries from {low} to {high}"
        cases.append(Case("repaired", _entries(rng, 12, low, high), says, Close(1e-4)))
    for part, says in (("queries", "some queries near -60, all keys"), ("keys", "queries and early keys near -60")):
        cases.append(Case("repaired", _two_levels(rng, part), says, Close(1e-4)))
    return cases

# %% [markdown] q4 measure, 4 points, 35 minutes, level 3
# ## When must a state start to err?
#
# $H$ heads store the same $n$ pairs. Each has keys of its own, independent and uniform on the unit sphere
# in $\mathbb R^K$, and a state $S = \sum_j k_j^\top v_j$; the values have entries $\pm 1$. A pair is read
# with its keys, and the answers of the heads are averaged. The sign of each entry is what counts.
#
# 1. Predict the number of pairs at which the share of right signs has fallen to `accuracy` (between 0.7 and
#    0.97).
# 2. Measure it, to about 5 %. The width of the values is yours to choose, and a fraction may be returned.
# 3. That was the plain sum with random keys. Now let each head write by any rule that is linear in the
#    values, and read pair $i$ as $q_i S$ with any $q_i$; neither may depend on the values. From how many
#    pairs on is exact recall of all possible values impossible?
#
# Prediction and measurement must agree up to a factor of 1.15. Which is better: one head with $K = 64$, or
# four heads with $K = 16$?

# %% answer q4
def predicted_pairs(K, H, accuracy):
    """Pairs at which the share of right signs is `accuracy`, a formula."""
    # BEGIN SOLUTION
    z = NormalDist().inv_cdf(accuracy)     # signal over noise
    return 1 + H * K / z**2
    # END SOLUTION


def measured_pairs(K, H, accuracy, seed):
    """The same, measured: the n at which the share falls to `accuracy`."""
    gen = torch.Generator().manual_seed(seed)
    # BEGIN SOLUTION
    def share(n, V=32):                    # of right signs, many trials
        trials = max(4, 2000 // n)
        k = torch.randn(trials, H, n, K, generator=gen)
        k = k / k.norm(dim=-1, keepdim=True)
        v = torch.randn(trials, 1, n, V, generator=gen).sign()
        read = (k @ (k.mT @ v)).mean(1, keepdim=True)
        return (read.sign() == v).double().mean().item()

    low, high = 2, 2
    while share(high) > accuracy:
        low, high = high, 2 * high
    while high / low > 1.02 and high - low > 1:
        middle = (low + high) // 2
        above = share(middle) > accuracy
        low, high = (middle, high) if above else (low, middle)
    return (low + high) / 2
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
# Recall of all heads together is $AX$ with $A = \sum_h Q_h W_h$ of rank at most $HK$. For $n = HK + 1$ no
# such $A$ is the identity, so some values are not recalled. For $n = HK$ one is: give each head $K$ of the
# pairs, with orthonormal keys for those and zero for the rest, and read with $H$ times the key, because the
# answers are averaged. Four heads of 16 and one of 64 are the same in both counts. What matters is the
# number of state entries per value component.

# %% checks q4
@asks(
    ABOUT["q4"],
    predicted_pairs=predicted_pairs,
    measured_pairs=measured_pairs,
    must_err=must_err,
)
def q4(rng):
    cases = []
    for K, H, accuracy in ((32, 1, 0.75), (16, 4, 0.85), (48, 2, 0.95)):
        says, seed = f"K = {K}, H = {H}, accuracy {accuracy}", int(rng.integers(2**31))
        measured = ("measured_pairs", (K, H, accuracy, seed))
        formula = ("predicted_pairs", (K, H, accuracy))
        cases.append(Case(*formula, says, Within(1.15), measured, entries=16))
        again = ("measured_pairs", (K, H, accuracy, seed + 1))
        cases.append(Case(*again, says, Within(1.15), measured))
    cases.append(Case(*again, says, Close(1e-12), formula, NO_NOISE))
    for K, H in ((int(rng.integers(8, 99)), 1), (int(rng.integers(8, 99)), 4)):
        cases.append(Case("must_err", (K, H), f"K = {K}, H = {H}", Close(1e-9)))
    return cases

# %% [markdown] q5 derive, 3 points, 15 minutes, level 1
# ## From which length on is a state the smaller memory?
#
# A Taylor map to order $p$ has as its features all products of at most $p$ entries of $x\in\mathbb R^K$; an
# entry may occur several times, and the empty product 1 counts. The package's map lists mixed products
# twice, $x_1x_2$ and $x_2x_1$. Keep each once, with a suitable factor: how many features are there, for any
# $K$ and $p$?
#
# With that map, and a denominator, one head's state is compared with its KV cache. State entries take
# `state_bytes` each, cache entries `cache_bytes`. From how many tokens on is the cache the larger of the
# two?

# %% answer q5
def feature_width(K, order):
    """Features of the Taylor map to `order`, every product once."""
    # BEGIN SOLUTION
    return math.comb(K + order, order)
    # END SOLUTION


def break_even(K, V, order, state_bytes, cache_bytes):
    """The smallest number of tokens whose cache exceeds the state."""
    # BEGIN SOLUTION
    state = feature_width(K, order) * (V + 1) * state_bytes
    return state // ((K + V) * cache_bytes) + 1
    # END SOLUTION

# %% [markdown] solution q5
# A product of at most $p$ of $K$ entries is a way to hand out $p$ places to $K$ entries and a 1 that fills
# what is left: $\binom{K+p}{p}$. For $p = 2$ that is $1 + K + K(K+1)/2$; a product $x_c x_d$ with $c\ne d$
# stands for two and gets the factor $\sqrt2$. At $K = V = 64$, a float32 state and a bfloat16 cache, the
# orders 1, 2 and 3 break even after 67, 2,179 and 48,654 tokens. A better similarity is paid for with a
# longer text before it saves anything. [Based](https://arxiv.org/abs/2402.18668) uses order 2 with
# $K = 16$: 153 features if each product is kept once, 273 as its code keeps them.

# %% checks q5
@asks(ABOUT["q5"], feature_width=feature_width, break_even=break_even)
def q5(rng):
    exact, cases = Close(1e-12), []
    for K, order in ((5, 2), (16, 2), (int(rng.integers(3, 9)), 3), (7, 1), (4, 0), (64, 3)):
        cases.append(Case("feature_width", (K, order), f"K = {K}, order {order}", exact))
    for K, V, order, state, cache in ((64, 64, 2, 4, 2), (16, 64, 2, 4, 2), (3, 5, 1, 2, 1), (8, 24, 3, 4, 4)):
        says = f"K = {K}, V = {V}, order {order}, {state} and {cache} bytes"
        cases.append(Case("break_even", (K, V, order, state, cache), says, exact))
    return cases
