# %% [markdown] q5 implement, 4 points, 30 minutes, level 3
# ## The best delay
#
# To hold a token for $d$ steps and then hand it out is to have the kernel that is 1 at $l = d$ and 0
# elsewhere. A channel whose $\bar A_n$ are given can only come near: it has the kernels
#
# $$
# \kappa_l = 2\operatorname{Re}\sum_{n=1}^N C_n\,\bar A_n^{\,l}, \qquad l = 0, \dots, T-1,
# $$
#
# with the complex numbers $C_n$ free ($\bar B$ is part of them).
#
# 1. Return the one of these kernels that comes nearest to a delay of $d$ steps: the sum of the squared
#    differences over $l = 0, \dots, T-1$ is the smallest.
# 2. How large is this sum?
#
# $T$ is at least $2N$ and $0 \le d < T$. No $\bar A_n$ is real or above 1 in size, and no two are equal or conjugate, though
# up to four are only 0.1 apart, and sizes and imaginary parts may be as small as $10^{-12}$, also beside a negative real part: there a formula that is right on paper may lose its digits, and seven are compared.
#
# Once you have both: how are error and kernel related, and what do the errors of all $T$ delays add up
# to? (What is the trace of a projection?)

# %% answer q5
def best_delay(A_bar, d, T):
    """The kernel [T] nearest to a delay of d; A_bar [N, 2], pairs."""
    # BEGIN SOLUTION
    A = torch.view_as_complex(A_bar)[None]
    power = torch.cat([torch.ones_like(A), A.expand(T - 1, -1)]).cumprod(0)
    basis = torch.cat([power.real, power.imag], 1)          # [T, 2N]
    Q, _ = torch.linalg.qr(basis)                           # orthonormal
    return Q @ Q[d]
    # END SOLUTION


def error(A_bar, d, T):
    """The sum of its squared differences from the delay."""
    # BEGIN SOLUTION
    return 1 - best_delay(A_bar, d, T)[d].item()
    # END SOLUTION

# %% [markdown] solution q5
# With $C = a + ib$ a kernel is $2a\operatorname{Re}\bar A^l - 2b\operatorname{Im}\bar A^l$: all kernels
# are *real* combinations of $2N$ sequences, the real and the imaginary parts of the powers. The nearest
# is the orthogonal projection of the delay, $Q Q^\top e_d$, where the columns of $Q$ are an orthonormal
# basis. The error is $1 - \|Q^\top e_d\|^2$, and since $\|Q^\top e_d\|^2 = (QQ^\top e_d)_d = \kappa_d$, it is
# one minus the height of the peak. Over all $d$ the heights add up to the trace of $QQ^\top$, which is
# $2N$, and the errors to $T - 2N$. That is a budget: over $T$ steps the best peaks are $2N/T$ high on
# average, whatever the $\bar A_n$. Where they are higher for some delays they are lower for others, and
# only with $2N = T$ is every delay exact.
#
# Rates and frequencies distribute the budget. If all modes decay alike, by $e^{-r}$ a step, and their
# frequencies stand at equal distances all round the circle, as S4D-Lin's nearly do at $\Delta = 1/N$, then
# $\bar A_n^{2N}$ is one number for all $n$. The peak has echoes every $2N$ steps, and the heights at $d$,
# $d + 2N$, $d + 4N$ and so on add up to 1, in proportion to $e^{-2rl}$: early delays win. If the
# frequencies fill only a part of the circle, with a smaller $\Delta$, the peak is broad instead, and late
# delays are drawn nearly as well as early ones.
#
# Where two $\bar A_n$ are close, their sequences nearly coincide, and the solution divides by how little they
# differ. The normal equations, $X^\top X c = X^\top e_d$, divide by its square: of sixteen digits only three are
# left for four modes 0.1 apart at $T = 8$, where QR keeps nine or more. Where they are nearly real, the imaginary parts
# are small in all rows. QR does not mind how large a column is. A pseudoinverse or `lstsq` drops what is small beside the
# largest column, unless all columns are scaled to one length first; and $\bar A_n^l$ and its conjugate, as two complex
# columns, differ in their last digits only.
#
# The powers are running products. `A_bar ** l` takes a logarithm, and of a number next to $-\frac12$ the angle stands
# next to $\pi$, to sixteen digits. If the imaginary part is $10^{-12}$, only the last four of them are about it.
#
# A shift of the powers changes nothing, since $\bar A_n^{l+1}$ spans what $\bar A_n^l$ spans. And $d$ is
# a property of the weights: the channel can hold *every* token for $d$ steps, but not one token until it
# is needed and the next for as long as that takes. For this, what is kept has to depend on the input.

# %% checks q5
@define_question(INFO["q5"], best_delay=best_delay, error=error)
def q5(rng):
    exact, calls = Close(1e-7), []
    cases = []
    for N, T in ((1, 20), (4, 32), (8, 64), (6, 40)):
        place = torch.arange(N) + torch.from_numpy(rng.uniform(0.4, 0.6, N))
        angle = math.pi * place / N * float(rng.uniform(0.5, 0.95))
        decay = torch.from_numpy(rng.uniform(0.5, 2, N)) / T
        A_bar = torch.complex(-decay, angle).exp()
        cases.append((as_pairs(A_bar), int(rng.integers(2, T // 2)), T))
    cases += [(cases[1][0], 0, 32), (cases[2][0], 63, 64), (cases[0][0], 0, 20), (cases[0][0], 19, 20)]
    for N, T in ((4, 8), (4, 9), (3, 6), (3, 7)):               # as few steps as there are
        angle = (torch.arange(N) + torch.from_numpy(rng.uniform(0.9, 1.1, N))) * float(rng.uniform(0.25, 0.3))
        A_bar = torch.complex(-torch.from_numpy(rng.uniform(0.5, 2, N)) / T, angle).exp()
        cases.append((as_pairs(A_bar), int(rng.integers(T)), T))
    near = torch.complex(torch.tensor(-0.02), 0.1022 * torch.arange(1, 5)).to(torch.complex128).exp()  # 0.1 apart
    cases.append((as_pairs(near), 4, 8))                        # any kernel can be had, if one computes well
    cases += [(as_pairs(near), 4, 9), (as_pairs(near), int(rng.integers(3, 7)), 10)]
    turned = torch.tensor([-0.03 + 0.5j, -0.02 - 1.1j, -0.05 + 1.9j, -0.04 - 2.6j], dtype=torch.complex128)
    cases.append((as_pairs(turned.exp()), 5, 24))
    for N in map(int, rng.integers(1, 5, size=48)):             # any numbers that lie apart, that decay or not
        angle = math.pi / N * (torch.arange(N) + torch.from_numpy(rng.uniform(0.2, 0.8, N)))
        turn = torch.complex(torch.zeros(N).double(), angle * torch.from_numpy(rng.choice([-1, 1, 1], N))).exp()
        A_bar = turn * torch.from_numpy(rng.choice([1.0, 0.9, rng.uniform(0.4, 1)], N))
        T = int(rng.choice([2 * N, 2 * N + 1, rng.integers(2 * N, 6 * N + 4)]))
        cases.append((as_pairs(A_bar), int(rng.choice([0, T - 1, rng.integers(T)])), T))
    decay, turn = rng.uniform((0.75, 0.7), (0.85, 0.9)).tolist()
    for pair in (  # numbers that share an angle, or a part; one that has long faded beside one that has not
        [decay * cmath.exp(turn * 1j), (decay + 0.15) * cmath.exp(turn * 1j)],
        [complex(0.4, turn), complex(0.4, -0.3)],
        [complex(0.7, 0.5), complex(-0.3, -0.5)],
        [0.5 * cmath.exp(turn * 1j), 0.97 * cmath.exp(2j)],
    ):
        T = int(rng.integers(14, 18))
        cases += [(as_pairs(pair), d, T) for d in (3, T - 6)]
    cases.append((torch.tensor([[3e-12, 4e-12]], dtype=torch.float64), 1, 4))  # hardly anything is left after a step, and not nothing
    cases += [(torch.tensor([[0.5, 1.1e-12]], dtype=torch.float64), d, 6) for d in (0, 1, 5)]  # nearly real, and not real
    for N, d, T in ((3, 2, 10), (4, 3, 8), (-1, 2, 6), (-2, 2, 8), (-3, 2, 10)):  # several of them, on either side of 0
        real = (float(rng.uniform(0.48, 0.52)) + float(rng.uniform(0.1004, 0.103)) * torch.arange(abs(N)).double()) * (1 if N > 0 else -1)
        cases.append((torch.stack([real, torch.from_numpy(rng.uniform(1.05e-12, 1.2e-12, abs(N)))], 1), d, T))
    size, angle = rng.uniform((0.0262, 0.3), (0.0268, 2.8)).tolist()
    cases.append((as_pairs([cmath.rect(size, angle)]), 0, 3))   # an error of about 5e-7
    for N, T in ((1, 5), (2, 7)):  # nearly real ones beside one that turns
        real = float(rng.uniform(0.45, 0.55)) + 0.2 * torch.arange(N).double()
        turning = torch.from_numpy(rng.uniform((-0.35, 0.85), (-0.25, 0.92), (1, 2)))
        beside = torch.stack([real, torch.from_numpy(rng.uniform(1.05e-12, 1.2e-12, N))], 1)
        cases.append((torch.cat([beside, turning]), 2, T))
    for A_bar, d, T in cases:
        inputs = f"{len(A_bar)} numbers of state, a delay of {d}, T = {T}"
        calls += [Call(name, (A_bar, d, T), inputs, exact) for name in ("best_delay", "error")]
    return sorted(calls, key=lambda call: call.name)
