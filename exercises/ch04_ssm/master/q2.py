# %% [markdown] q2 implement, 5 points, 35 minutes, level 3
# ## Discretise and convolve
#
# A channel that is discretised by the zero-order hold has the kernel
#
# $$
# \kappa_l = 2\operatorname{Re}\sum_{n=1}^{N} C_n\, \bar A_n^{\,l}\, \bar B_n, \qquad
# \bar A_n = e^{\Delta A_n}, \quad \bar B_n = \frac{e^{\Delta A_n} - 1}{A_n}\,B_n, \qquad l = 0, \dots, T-1,
# $$
#
# and, without a skip, the output $y_t = \sum_{j \le t} \kappa_{t-j}\,u_j$.
#
# 1. Compute the kernel. Among the inputs are an integrator, $A_n = 0$, an oscillator that does not decay,
#    and modes with $|\Delta A_n|$ from $10^{-3}$ down to $4\cdot 10^{-14}$; no mode grows, and the largest $|\Delta A_n|$ is 100. The check compares seven digits.
# 2. Compute the output in $O(T\log T)$ operations. $T$ goes up to 384,000, where a table of $T\times T$
#    numbers would take 1.2 TB. The check does not count operations; a grader stops an answer that takes
#    too long.

# %% answer q2
def kernel(delta, A, B, C, T):
    """kappa [T]; delta is a number, A, B, C [N, 2] are pairs."""
    # BEGIN SOLUTION
    A, B, C = (torch.view_as_complex(x) for x in (A, B, C))
    x = delta * A
    hold = torch.expm1(x) / torch.where(A == 0, 1.0, A)
    B_bar = torch.where(A == 0, delta, hold) * B
    l = torch.arange(T)[:, None]
    return 2 * ((l * x).exp() @ (C * B_bar)).real
    # END SOLUTION


def convolve(u, kernel):
    """y [T]; u and the kernel are [T]."""
    # BEGIN SOLUTION
    T = len(u)
    spectrum = torch.fft.rfft(u, 2 * T) * torch.fft.rfft(kernel, 2 * T)
    return torch.fft.irfft(spectrum, 2 * T)[:T]
    # END SOLUTION

# %% [markdown] solution q2
# As $x = \Delta A \to 0$, $\bar B$ tends to $\Delta B$: an integrator adds up its input times the step.
# As it is written, $\bar B$ is 0/0 there. Nearby it is worse, since nothing warns you: near 1, $e^x$ is
# rounded to about $10^{-16}$, so at $x = 10^{-13}$ three digits of $e^x - 1$ are left, and in float32
# none at $10^{-8}$. Replacing $\bar B$ by $\Delta B$ below a threshold is wrong by $x/2$, so that no
# threshold gives more than eight digits in float64; two more terms of the series do. Without a threshold
# one calls `torch.expm1`, or writes $e^x - 1 = 2e^{x/2}\sinh(x/2)$, which is 0 times infinity once
# $\sinh$ overflows, below $\operatorname{Re} x = -1420$. Modes with a small $x$ are no rare accident: they
# are those that remember for long.
#
# A product of two spectra of $n$ numbers is a convolution on a *circle* of $n$ places. Two sequences of
# length $T$ reach up to place $2T - 2$, so from $n = 2T - 1$ on nothing comes round. With $n = T$, all
# $u_j$ with $j > t$ come into $y_t$ as well, by $\kappa_{T+t-j}$: the layer sees the future, and the loss
# looks too good. How much it sees depends on the kernel. If that has died down after a few steps, only
# the first outputs are wrong, and a test that looks at the last ones passes.

# %% checks q2
def _channel(rng, N, slow=0.05, fast=0.5):
    """A, B and C of N modes, for steps near 1."""
    A = torch.complex(-torch.from_numpy(rng.uniform(slow, fast, N)), torch.from_numpy(rng.uniform(0.2, 2, N)))
    B, C = (torch.view_as_complex(torch.from_numpy(rng.normal(size=(N, 2)))) for _ in range(2))
    return A, B, C


@define_question(INFO["q2"], kernel=kernel, convolve=convolve)
def q2(rng):
    exact, calls = Close(1e-7), []
    for N, T in ((1, 12), (4, 40), (3, 1)):
        delta = float(rng.uniform(0.3, 0.9))
        arguments = (delta, *map(as_pairs, _channel(rng, N)), T)
        calls.append(Call("kernel", arguments, f"{N} modes, T = {T}", exact))
    tiny = 10.0 ** torch.tensor([-3, -4, -5, -6, -7, -9, -11, -13, -13], dtype=torch.float64)
    tiny *= torch.from_numpy(rng.uniform(0.4, 1, 9))
    turn = torch.from_numpy(rng.uniform(0, 1, 9))
    _, B, C = _channel(rng, 9)
    x = torch.complex(-tiny, tiny * turn)
    calls.append(Call("kernel", (1.0, *map(as_pairs, (x, B, C)), 30), "tiny A, T = 30", exact))
    sizes = (4.95, 2.99, 1.99, 1.49, 0.95, 0.299, 0.25, 0.199, 0.1, 6.99e-2, 4e-2, 2e-2, 1.49e-2, 5e-3, 2e-3, 1e-3, 1e-4, 1e-6, 5e-7, 4e-7, 3e-7, 3e-10, 2e-10, 1.5e-10, 1.2e-10)  # alone: none hides its error
    for size, delta in (*((size, 1) for size in sizes), (1e-12, 1e-4), (3e-12, 1e-4), (0.9, 1e7), (1e-5, 1e10), (0.5, 1e10), (0.5, 1e13), (0.5, 1e15), (0.1, 1e15), (1e-6, 1e4), (1e-6, 1e6), (5e-3, 1e6), (0.1, 1e6)):
        one = (as_pairs([complex(x)]) for x in (-rng.uniform(0.9, 1) * size / delta, 1, rng.uniform(1, 2) / delta))
        calls.append(Call("kernel", (float(delta), *one, 8), f"one A near {-size / delta:g}, delta = {delta:g}, T = 8", exact))
    for size in (3e-4, 6e-6, -6e-6):  # an oscillator, whose output is of the order of what a shortcut leaves out
        size, delta = size * float(rng.uniform(0.8, 1)), float(rng.uniform(0.5, 1))
        one = (as_pairs([x]) for x in (complex(0, size / delta), 1j, complex(rng.uniform(1, 2), 0)))
        calls.append(Call("kernel", (delta, *one, 8), f"one A near {size / delta:.2g} i, T = 8", exact))
    for delta in (1e-3, 0.05, 20.0, 1e4):
        more = torch.complex(*-torch.from_numpy(rng.uniform((0.05, -1), (0.5, 1), (4, 2)).T))
        A = torch.cat([x, more]) / delta
        _, B, C = _channel(rng, 13)
        arguments = (delta, *map(as_pairs, (A, B, C / delta)), 30)
        calls.append(Call("kernel", arguments, f"some tiny A, delta = {delta:g}, T = 30", exact))
    _, B, C = _channel(rng, 3)
    x = torch.tensor([-0.5 + 2j, -20 + 5j, -80 - 50j], dtype=torch.complex128) * float(rng.uniform(0.7, 1))
    x[2] = torch.tensor(-60 - 80j)  # of size 100
    arguments = (0.1, *map(as_pairs, (x / 0.1, B, C)), 10)
    calls.append(Call("kernel", arguments, "some large A, delta = 0.1, T = 10", exact))
    A, B, C = _channel(rng, 3)
    A[1] = 0
    calls.append(Call("kernel", (0.5, *map(as_pairs, (A, B, C)), 20), "an integrator, T = 20", exact))
    for zeros in ([0, 2], [0, 1, 2]):
        A, B, C = _channel(rng, 3)
        A[zeros] = 0
        calls.append(Call("kernel", (0.5, *map(as_pairs, (A, B, C)), 20), f"{len(zeros)} integrators of 3 modes, T = 20", exact))
    A, B, C = _channel(rng, 3)
    A[1], B[1], C[1] = 0, 1.0, float(rng.uniform(1, 2))  # a step so long that no small number can stand for 0
    arguments = (1e6, *map(as_pairs, (A / 1e6, B, C / 1e6)), 30)
    calls.append(Call("kernel", arguments, "an integrator, delta = 1e+06, T = 30", exact))
    A, B, C = _channel(rng, 3)
    A[1], B[1], C[1] = 1j * float(rng.uniform(1.5, 2.5)), 1.0, float(rng.uniform(1, 2))
    inputs = "a mode that does not decay, T = 20"
    calls.append(Call("kernel", (0.5, *map(as_pairs, (A, B, C)), 20), inputs, exact))
    A, B, C = _channel(rng, 4, 2e-5, 2e-2)
    A[2], B[2], C[2] = -float(rng.uniform(2, 9)) * 1e-9, 1.0, float(rng.uniform(1, 2))  # seen after 10^5 steps
    calls.append(Call("kernel", (0.1, *map(as_pairs, (A, B, C)), 2**17), "4 modes, T = 131,072", exact))
    for _ in range(10):  # a few modes of any size, that turn either way, decay or not; integrators
        N, T, delta = int(rng.integers(1, 5)), int(rng.integers(1, 20)), float(10 ** rng.uniform(-4, 4))
        modulus = 10.0 ** torch.from_numpy(rng.choice([rng.uniform(-13, -3, N), rng.uniform(-2, 2, N)]))
        angle = math.pi * torch.from_numpy(rng.choice([rng.uniform(0.5, 1.5, N), rng.choice([0.5, 1, 1.5], N)]))
        x = torch.polar(modulus, angle) * torch.from_numpy(rng.choice([0, 1, 1, 1], N))
        x.real[x.real > -1e-12 * x.abs()] = 0  # rounded, the cosine of a quarter turn is not 0
        _, B, C = _channel(rng, N)
        B.imag *= int(rng.integers(2))
        arguments = (delta, *map(as_pairs, (x / delta, B, C / delta)), T)
        calls.append(Call("kernel", arguments, f"{N} modes of any size, delta = {delta:.3g}, T = {T}", exact))
        u, k = torch.from_numpy(rng.normal(size=(2, T)) * rng.choice([0, 1, 1, 100], size=(2, T)))
        calls.append(Call("convolve", (u, k), f"T = {T}", exact))
    for T in (2, 3, 5, 17):                                     # where 2 T - 2 is a power of two, and one place too few
        u, k = torch.from_numpy(rng.normal(size=(2, T)))
        u[-1], k[-1] = rng.uniform(1, 2, size=2).tolist()
        calls.append(Call("convolve", (u, k), f"T = {T}", exact))
    long = int(rng.integers(70_000, 75_000)) | 1  # not longer: its halves' transforms have large prime factors
    for T in (7, 16, 1, 384_000, long, int(rng.integers(21, 5000)) | 1):   # of order T^2 the longest takes more than 5 s
        u, k = torch.from_numpy(rng.normal(size=(2, T)))
        k = k * 0.25 ** (torch.arange(T) / T)                   # it has not died down at the end
        calls.append(Call("convolve", (u, k), f"T = {T:,}", exact))
    for keep, T in ((0.9, int(rng.integers(190, 210))), (0.97, int(rng.integers(950, 1050)))):  # no part of it is too small to count
        u, k = torch.from_numpy(rng.normal(size=T)), keep ** torch.arange(T).double()
        calls.append(Call("convolve", (u, k), f"T = {T:,}, a kernel that dies down, {keep}^l", exact))
    return calls
