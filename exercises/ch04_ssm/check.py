"""Checks of ``ch04_ssm``, generated from master/*.py by ``make exercises``: edit those."""


import math

import torch


import cmath

from linattn_exercises.calls import Call
from linattn_exercises.comparison import Close, Exactly, Within
from linattn_exercises.questions import QuestionInfo, define_question


def as_pairs(z):
    """Return complex numbers [N] as pairs of real ones [N, 2]."""
    return torch.view_as_real(torch.as_tensor(z, dtype=torch.complex128))


VERSION = "3b1300333e49"
INFO = {
    "q1": QuestionInfo(
        "ch04_ssm", "q1", 'The largest stable step',
        "derive", points=4, minutes=25, level=2,
    ),
    "q2": QuestionInfo(
        "ch04_ssm", "q2", 'Discretise and convolve',
        "implement", points=5, minutes=35, level=3,
    ),
    "q3": QuestionInfo(
        "ch04_ssm", "q3", 'Four faults of a convolution',
        "diagnose", points=4, minutes=25, level=2,
    ),
    "q4": QuestionInfo(
        "ch04_ssm", "q4", 'What a channel remembers, from its response',
        "measure", points=4, minutes=25, level=2,
    ),
    "q5": QuestionInfo(
        "ch04_ssm", "q5", 'The best delay',
        "implement", points=4, minutes=30, level=3,
    ),
}


# --- q1: The largest stable step ---


def largest_step(A, theta):
    """The largest stable step; A [N, 2], pairs, real parts below 0."""
    if theta >= 0.5:
        return math.inf
    re, im = A.T
    return (-2 * re / (re**2 + im**2)).min().item() / (1 - 2 * theta)


def smallest_theta(A, delta):
    """The smallest theta in [0, 1] at which the step delta is stable."""
    re, im = A.T
    least = (0.5 + re / (delta * (re**2 + im**2))).max().item()
    return max(0.0, least)


def _modes(rng):
    """A slow mode, a fast one, and one between them, whose bound is the lowest: in any order."""
    slow = complex(-rng.uniform(0.01, 0.03), rng.uniform(0.25, 0.35))
    fast = complex(-rng.uniform(25, 35), rng.uniform(10, 12))
    between = complex(-rng.uniform(0.3, 0.6), rng.uniform(6, 9))
    quiet = complex(-rng.uniform(1, 2), rng.uniform(0, 1))
    return as_pairs([(slow, fast, between, quiet)[n] for n in rng.permutation(4)])


def _slow_one_decides(rng):
    """Six modes, of which the smallest one, which turns, has the lowest bound."""
    modes = [complex(-rng.uniform(3, 9), rng.uniform(0, 1)) for _ in range(6)]
    modes[int(rng.integers(6))] = complex(-rng.uniform(5e-4, 1e-3), rng.uniform(0.25, 0.35))
    return as_pairs(modes)


def _tiny_one_decides(rng):
    """Six modes, of which one that hardly decays has the lowest bound, at a size of less than 1e-3 of the largest."""
    A, turns = torch.from_numpy(-rng.uniform((3, 0), (9, 1), size=(6, 2))), float(rng.uniform(2.5e-4, 8e-4))
    turns *= A.norm(dim=1).max().item()
    A[int(rng.integers(6))] = torch.tensor([-float(rng.uniform(1.01e-4, 1.2e-4)), 1.0]).double() * turns
    return A


def _no_extreme_decides(rng):
    """Five modes, of which the last allows least and has neither the largest nor the smallest part, size or angle."""
    modes = torch.tensor([[-0.01, 0.3], [-30, 11], [-2, 20], [-0.5, 10], [-1, 14.5]], dtype=torch.float64)
    near = modes * torch.from_numpy(rng.uniform(0.995, 1.005, size=(5, 2))) * float(rng.uniform(0.5, 2))
    return near[torch.from_numpy(rng.permutation(5))]


@define_question(INFO["q1"], largest_step=largest_step, smallest_theta=smallest_theta)
def q1(rng):
    exact, calls = Close(1e-7), []
    lin = as_pairs([complex(-0.5, math.pi * n) for n in range(6)])
    real = as_pairs([complex(-n - 1.0, 0.0) for n in range(4)])
    one = as_pairs([complex(-rng.uniform(0.2, 1), rng.uniform(1, 3))])
    drawn = [_modes(rng) for _ in range(4)]
    small = _slow_one_decides(rng)
    long = as_pairs([complex(-rng.uniform(0.8e-4, 1.2e-4), rng.uniform(0, 2e-5)) for _ in range(2)])
    low = float(rng.uniform(0.1, 0.4))
    below = [(one, 0.0), (real, 0.0), (lin, low), (drawn[0], 0.0), (drawn[1], low), (drawn[2], 0.45)]
    below += [(small, 0.0), (long, 0.0), (long, low), (long, 0.499), (drawn[3], 0.499)]
    far = 10 ** float(rng.uniform(7.6, 7.95))  # nearly as far as a bound may lie
    below.append((long, 0.5 - largest_step(long, 0.0) / far / 2))
    below.append((torch.tensor([[-30.0, 11.0], [-0.5, 7.0]], dtype=torch.float64), 0.5 - 4e-7))  # nearly 1/2
    gentle = [torch.tensor([[-damping, 1.0], [-3.0, 1.0]], dtype=torch.float64) for damping in (5e-4, 1.0001e-4)]  # each step adds next to nothing
    below.append((gentle[0], 0.0))
    turned = torch.tensor([[-0.5, -7.0], [-1.5, 0.4], [-0.02, -0.3], [-30.0, 1.0]], dtype=torch.float64)
    many = as_pairs([complex(-0.5, math.pi * n) for n in range(int(rng.integers(64, 80)))])
    many = many[torch.from_numpy(rng.permutation(len(many)))]
    alike = torch.tensor([[-1.5, 0.1], [-1.0, 1.0]], dtype=torch.float64) * float(rng.uniform(0.5, 2))
    stiff = [  # a mode that does not turn, or hardly, decides beside one that does
        as_pairs([complex(-rng.uniform(4, 6), rng.uniform(6, 7)), complex(-rng.uniform(25, 35), turns)][:: int(rng.choice([-1, 1]))])
        for turns in (0.0, rng.uniform(3, 6))
    ]
    below += [(A, theta) for A in stiff for theta in (0.0, low)]
    inner = _no_extreme_decides(rng)
    below += [(inner, 0.0), (inner, low)]
    below += [(alike, 0.0), (turned, 0.0), (many, low), (drawn[3], 0.49999)]
    for scale in (1e-3, 1.0, 1e3):  # two modes whose bounds are 3 % apart, of which one turns more than it decays
        for bounds in ((1.0, 1.03), (1.03, 1.0)):
            angles = [math.radians(rng.uniform(*ends)) for ends in ((20, 30), (65, 75))]
            sizes = [2 * math.cos(angle) / bound / scale for angle, bound in zip(angles, bounds)]
            pair = [size * complex(-math.cos(angle), math.sin(angle)) for size, angle in zip(sizes, angles)]
            below.append((as_pairs(pair), 0.0))
    fast, slow = (torch.tensor([mode], dtype=torch.float64) for mode in ([-300.0, 4e5], [-2.5e-8, 0.0]))
    below += [(fast, 0.0), (slow, 0.0)]
    # parts so small, a threshold takes them for 0
    below += [(torch.tensor([mode], dtype=torch.float64), 0.0) for mode in ([-1e-7, 3e-7], [-1e-12, 4e-10], [-4e-15, 1e-11])]
    hardly = torch.tensor([[-1.0001e-4, 1.0]], dtype=torch.float64)  # as little damped as a mode may be
    below.append((hardly, 0.0))
    tiny = _tiny_one_decides(rng)
    below += [(tiny, 0.0), (tiny, low)]
    for A, theta in (*below, (one, 0.5), (drawn[0], 0.75), (drawn[3], 1.0)):
        how = Within(1 + 1e-6) if theta < 0.5 else exact  # a step may be tiny
        calls.append(Call("largest_step", (A, theta), f"{len(A)} modes, theta = {theta:.5g}", how))
    calls.append(Call("largest_step", (fast, 0.5 - 1e-10), "1 modes, theta = 0.5 - 1e-10", Within(1.01)))
    calls.append(Call("largest_step", (fast, 0.5 - 4e-12), "1 modes, theta = 0.5 - 4e-12", Within(1.01)))
    calls.append(Call("largest_step", (fast, 0.5 - 3.0005e-13), "1 modes, theta = 0.5 - 3e-13", Within(1.01)))
    near = float(rng.uniform(0.02, 0.04))
    steps = [(one, 5.0), (real, 1.0), (lin, 0.1), (drawn[0], near), (drawn[1], 0.3), (drawn[2], 1e-3)]
    faint = torch.tensor([[-1.0, 100.0], [-2.0, 1.0]], dtype=torch.float64) * float(rng.uniform(0.8, 1.2))
    steps += [(1e-4 * faint, 10.0), (1e-7 * faint, 10.0), (1e-7 * faint, 1e4), (many, 1e-3)]
    steps.append((torch.tensor([[-2e-8, 1e-7]], dtype=torch.float64), 1e7))
    steps.append((torch.tensor([[-1.0, 1.0]], dtype=torch.float64), float(rng.uniform(1.1e6, 2e6))))  # nearly 1/2
    steps += [(A, times * largest_step(A, 0.0)) for A in stiff for times in (1.5, 1.002, 1.0001, 1.000001)]
    steps += [(fast, times * largest_step(fast, 0.0)) for times in (1.2, 1.0001, 1.000001)]  # a hair above the bound is above it
    steps += [(tiny, times * largest_step(tiny, 0.0)) for times in (1.1, 1.5)]
    steps += [(inner, times * largest_step(inner, 0.0)) for times in (1.2, 3.0)]
    steps += [(gentle[1], times * largest_step(gentle[1], 0.0)) for times in (1.000003, 1.00001, 1.02, 1.2)]
    steps += [(hardly, times * largest_step(hardly, 0.0)) for times in (1.0001, 1.5)]
    steps += [(torch.tensor([mode], dtype=torch.float64), delta) for mode, delta in (([-1e-12, 1e-9], 1e7), ([-1e-9, 5e-9], 1e9))]
    for A, delta in (*steps, (small, 0.05), (turned, 0.3), (alike, 4.0)):
        calls.append(Call("smallest_theta", (A, delta), f"{len(A)} modes, delta = {delta:.3g}", exact))
    for _ in range(60):  # any modes: one or more, fast or slow, some of which do not turn, or turn backwards
        sizes = 10 ** rng.uniform(-1.5, 1.5, size=(int(rng.integers(1, 7)), 2)) * 10 ** rng.uniform(-3, 4)
        signs = [(-1, int(rng.choice([-1, 0, 0, 1]))) for _ in sizes]
        A = torch.from_numpy(sizes * signs)
        theta = float(rng.choice([0, 0.5, 1, rng.uniform(0, 0.5), rng.uniform(0.5, 1)], p=[0.2, 0.1, 0.1, 0.5, 0.1]))
        how = Within(1 + 1e-6) if theta < 0.5 else exact
        calls.append(Call("largest_step", (A, theta), f"{len(A)} modes, theta = {theta:.5g}", how))
        times = rng.choice([rng.uniform(0.5, 0.99), rng.uniform(1.01, 3), 10 ** rng.uniform(0.5, 5)])
        delta = largest_step(A, 0.0) * float(times)
        calls.append(Call("smallest_theta", (A, delta), f"{len(A)} modes, delta = {delta:.3g}", exact))
    return calls


# --- q2: Discretise and convolve ---


def kernel(delta, A, B, C, T):
    """kappa [T]; delta is a number, A, B, C [N, 2] are pairs."""
    A, B, C = (torch.view_as_complex(x) for x in (A, B, C))
    x = delta * A
    hold = torch.expm1(x) / torch.where(A == 0, 1.0, A)
    B_bar = torch.where(A == 0, delta, hold) * B
    l = torch.arange(T)[:, None]
    return 2 * ((l * x).exp() @ (C * B_bar)).real


def convolve(u, kernel):
    """y [T]; u and the kernel are [T]."""
    T = len(u)
    spectrum = torch.fft.rfft(u, 2 * T) * torch.fft.rfft(kernel, 2 * T)
    return torch.fft.irfft(spectrum, 2 * T)[:T]


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


# --- q3: Four faults of a convolution ---


symptoms = {
    "first": [2.0, 2.655, 2.349, 1.907, 1.731, 1.777, 1.873, 1.918],
    "second": [0.416, 0.416, 0.416, 0.416, 0.416, 0.416, 0.416, 0.416],
    "third": [0.339, 0.364, 0.257, 0.177, 0.164, 0.185, 0.203, 0.208],
}


first = "D"
second = "A"
third = "B"


def outputs(fault, u, delta, rate, frequency):
    """Outputs [T] for u [T] and a fault, "A" to "D", or "none"."""
    T, A = len(u), complex(-rate, frequency)
    l = torch.arange(T + 1, dtype=u.dtype)
    power = torch.exp(A * delta * l)
    B_bar = 1 if fault == "D" else torch.expm1(A * delta * l[1]) / A
    k = (1 if fault == "B" else 2) * (power[:T] * B_bar).real
    if fault == "C":
        k = torch.cat([0 * k[:1], k[:-1]])
    n = T if fault == "A" else 2 * T
    spectrum = torch.fft.rfft(u, n) * torch.fft.rfft(k, n)
    return torch.fft.irfft(spectrum, n)[:T]


@define_question(
    INFO["q3"],
    first=first,
    second=second,
    third=third,
    outputs=outputs,
    wrong_values={
        "first": {
            "A": "There all outputs are equal: on a circle, each token gets the sum of the whole kernel.",
            "B": "There the first output is Re B_bar. Compute it: it is far below this one.",
            "C": "There the first output is 0: nothing has been written yet.",
        },
        "second": {
            "B": "There outputs swing like the right ones, at half their size. Here all are equal.",
            "C": "There the outputs are the right ones, a token late: they differ, and begin with 0.",
            "D": "There the first output is 2 Re B = 2, and outputs differ.",
        },
        "third": {
            "A": "There all outputs are equal, since each token gets the sum of the whole kernel.",
            "C": "There the first output is 0. Here it is that of the right program, but for a factor.",
            "D": "There the first output is 2 Re B = 2.",
        },
    },
)
def q3(rng):
    calls = [Call(name, (), "", Exactly()) for name in ("first", "second", "third")]
    for fault in ("none", "A", "B", "C", "D"):
        for T in (8, int(rng.integers(9, 14)), 1, 2, 3, 1000, 2000):
            u = torch.from_numpy(rng.normal(size=T))
            least = 0.6 if T == 2000 else 0.1  # a long sequence in which the first tokens fade below any number
            delta, rate, frequency = map(float, rng.uniform((max(0.2, least), least, 1), (0.8, 0.8, 4)))
            rate = 0.02 * rate if T == 1000 else rate  # one in which they last
            if 8 < T < 14:  # a channel that turns and fades fast
                delta, rate, frequency = map(float, rng.uniform((0.2, 1, 4), (2, 3, 10)))
            if T == 2:  # within a step it turns so far that Re B_bar is negative
                delta, rate, frequency = map(float, rng.uniform((0.9, 0.2, 4.3), (1.1, 0.4, 4.7)))
            if T == 3:  # a step that is small, and a channel that fades faster than it turns
                delta, rate, frequency = map(float, rng.uniform((0.05, 1, 0.2), (0.1, 2, 0.6)))
            inputs = f"fault {fault}, T = {T}, a rate of {rate:.2g}"
            calls.append(Call("outputs", (fault, u, delta, rate, frequency), inputs, Close(1e-9)))
        for zeros in (slice(0, 2), slice(-2, None)):  # at the ends of what goes round
            u = torch.from_numpy(rng.normal(size=8))
            u[zeros] = 0
            inputs = f"fault {fault}, T = 8, two tokens of 0 at an end"
            calls.append(Call("outputs", (fault, u, 0.2, 0.5, 2.0), inputs, Close(1e-9)))
        for rate, frequency in ((3.6e-4, 0.0), (2e-4, 3e-4), (0.003, 0.0), (0.003, 0.002), (0.35, 0.0), (0.3, 0.1)):  # hardly anything happens in a step,
            u = 1e4 * torch.from_numpy(rng.normal(size=6))  # and inputs are large
            inputs = f"fault {fault}, T = 6, delta = 0.0025, a rate of {rate:g}, a frequency of {frequency:g}"
            calls.append(Call("outputs", (fault, u, 2.5e-3, rate, frequency), inputs, Close(1e-9)))
        for delta, rate in ((1.0, 9.9e-5), (1.0, 2.9e-4), (1.0, 4.9e-3), (10.0, 5e-7), (100.0, 5e-9), (1e6, 5e-13), (1e7, 5e-9), (1e12, 5e-13)):  # and in a long step; a series is good as far as it is
            u = torch.from_numpy(rng.normal(size=6))
            inputs = f"fault {fault}, T = 6, delta = {delta:g}, a rate of {rate:g}, a frequency of 0"
            calls.append(Call("outputs", (fault, u, delta, rate, 0.0), inputs, Close(1e-9)))
        for delta, rate in ((1.0, 1.005e-7), (100.0, 1.005e-9)):  # the exponential less 1 has nine digits left
            u = torch.from_numpy(rng.normal(size=6))
            inputs = f"fault {fault}, T = 6, delta = {delta:g}, a rate of {rate:g}, a frequency of 0"
            calls.append(Call("outputs", (fault, u, delta, rate, 0.0), inputs, Close(1e-8)))
        for _ in range(18):  # any short input, also with zeros; any step and channel, also one that does not turn
            T = int(rng.integers(1, 13))
            u = torch.from_numpy(rng.normal(size=T) * rng.choice([0, 1, 1, 100], size=T))
            delta, rate, frequency = (float(x) for x in 10 ** rng.uniform((-2.5, -2, -2), (1, 1.5, 1)))
            frequency *= int(rng.integers(4) > 0)
            inputs = f"fault {fault}, T = {T}, delta = {delta:.2g}, a rate of {rate:.2g}, a frequency of {frequency:.2g}"
            calls.append(Call("outputs", (fault, u, delta, rate, frequency), inputs, Close(1e-9)))
    for fault in ("none", "A", "B", "C", "D"):  # a step after which nothing is left
        u, most = torch.from_numpy(rng.normal(size=6)), float(rng.uniform(390, 399))
        delta, frequency = map(float, rng.uniform((0.5, 1), (10, 2)))
        inputs = f"fault {fault}, T = 6, delta = {delta:.2g}, a rate of {most / delta:.4g}, a frequency of {frequency:.2g}"
        calls.append(Call("outputs", (fault, u, delta, most / delta, frequency), inputs, Close(1e-9)))
    return calls


# --- q4: What a channel remembers, from its response ---


def memory(y):
    """Half-life and period in steps, of a response [T]: two numbers."""
    windows = y.unfold(0, len(y) // 2, 1)            # each starts one later
    shapes = torch.linalg.svd(windows, full_matrices=False).Vh[:2].T
    step = torch.linalg.lstsq(shapes[:-1], shapes[1:]).solution   # [2, 2]
    A_bar = torch.linalg.eigvals(step)[0]
    half_life = math.log(2) / -math.log(abs(A_bar))
    return half_life, 2 * math.pi / abs(A_bar.angle().item())


def _between(rng, low, high):
    """A number whose logarithm is uniform."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


@define_question(INFO["q4"], memory=memory)
def q4(rng):
    calls, drawn = [], []
    for _ in range(4):
        life = _between(rng, 3, 300)
        drawn.append((life, _between(rng, 2.2, min(400, 10 * life))))
    ends = [(3.0, _between(rng, 2.2, 30)), (300.0, _between(rng, 50, 400)), (_between(rng, 3, 300), 2.2)]
    ends += [(300.0, _between(rng, 2.3, 8)) for _ in range(3)]  # turns that a coarse grid of periods misses
    slow = [(rng.uniform(34, 50), rng.uniform(380, 400)) for _ in range(4)]  # little of a turn is seen
    slow += [(rng.uniform(280, 300), rng.uniform(380, 400)) for _ in range(4)]  # the first 100 steps do not tell
    late = []
    for _ in range(6):  # most of the response is rounding of next to nothing
        life = _between(rng, 3, 60)
        late.append((life, _between(rng, 2.2, min(400, 10 * life))))
    life = _between(rng, 3, 8)
    over = life, _between(rng, 2.2, 10 * life)  # long before the end
    ends.append((_between(rng, 3.11, 3.14), _between(rng, 2.2, 30)))  # off a grid of quarters
    quiet, loud = drawn[:2]
    plain = []
    for _ in range(4):  # periods of whole steps, and long ones; they begin with 0 or a peak
        life = _between(rng, 3, 150)
        plain.append((life, float(rng.integers(3, min(9, 10 * life)))))
        life = _between(rng, 3, 33)
        plain.append((life, rng.uniform(11, 11.9) * life))
    sine = rng.uniform(20, 60), 8.0  # every zero of it is one of its numbers
    four = rng.uniform(20, 60), 4.0  # every second number is 0
    plain += [sine, four]
    # numbers at a fixed distance, a tenth of 480 or another part, lie whole half turns apart: they tell no angle
    even = [(_between(rng, 60, 240), period) for period in (8.0, 16.0, 17.0, 18.0, 19.0, 20.0, 24.0, 53 / 3)]
    fixed = {  # by half-life and period: T, and the phase at which what is left out, or next to nothing, is needed
        (3.0, 35.0): (53, 200),   # what comes back after it seemed over; the same from elsewhere
        (6.0, 71.4): (108, 195),
        (4.5, 52.2): (79, 180),
        (8.2, 89.7): (135, 180),
        (4.3, 5.5): (10, 90),     # as short as may be
        (5.0, 6.0): (11, 200),
        (250.0, 400.0): (600, 320),  # the first 100 steps do not tell, and windows of 8 or 10 neither
        (300.0, 400.0): (600, 180),
        (34.0, 400.0): (600, 300),
        (32.7, 378.5): (568, 200),
        (28.1, 316.7): (566, 211.2),  # windows of 17 to 20
        (26.03, 311.2): (467, 336.8),
        (3.04, 33.65): (80, 131),  # from one start a search ends elsewhere
        (3.17, 37.4): (142, 129),
        (3.56, 40.8): (155, 132),
        (3.57, 39.5): (150, 296),
    }
    for life, period in (*drawn, *ends, (_between(rng, 40, 300), 400.0), *slow, *late, over, *plain, *even, *fixed):
        T = math.ceil(max(2 * life, 1.5 * period, 10) * _between(rng, 1, 1.5))
        T = 1000 if (life, period) == over else T
        T = int(rng.integers(max(T, 500), 1001)) if (life, period) in late else T
        T = 480 if (life, period) in even else T
        T, degrees = fixed.get((life, period), (T, None))
        l = torch.arange(T, dtype=torch.float64)
        phase = rng.uniform(0, 2 * math.pi)
        phase = math.pi / 2 * int(rng.integers(4)) if (life, period) in plain else phase
        phase = phase if degrees is None else math.radians(degrees)
        phase = {sine: math.pi / 2, four: 0.0}.get((life, period), phase)
        turn = 2 * math.pi * l / period + phase
        size = 10 ** rng.uniform(-3, 2)
        size = {quiet: 1e-8, loud: 1e6}.get((life, period), size)
        size = size if degrees is None else 1.0  # as what is rounded off depends on it
        wave = torch.where(turn.cos().abs() < 1e-9, 0.0, turn.cos())
        y = (size * 2.0 ** (-l / life) * wave).bfloat16().double()
        inputs = f"T = {T}, a half-life of {life:.1f} and a period of {period:.1f}"
        calls.append(Call("memory", (y,), inputs, Within(1.03)))
    return calls


# --- q5: The best delay ---


def best_delay(A_bar, d, T):
    """The kernel [T] nearest to a delay of d; A_bar [N, 2], pairs."""
    A = torch.view_as_complex(A_bar)[None]
    power = torch.cat([torch.ones_like(A), A.expand(T - 1, -1)]).cumprod(0)
    basis = torch.cat([power.real, power.imag], 1)          # [T, 2N]
    Q, _ = torch.linalg.qr(basis)                           # orthonormal
    return Q @ Q[d]


def error(A_bar, d, T):
    """The sum of its squared differences from the delay."""
    return 1 - best_delay(A_bar, d, T)[d].item()


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


QUESTIONS = (q1, q2, q3, q4, q5,)
