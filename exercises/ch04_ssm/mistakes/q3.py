"""Known answers to question 3: four faults of a convolution."""

import math

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _run(fault, u, delta, rate, frequency, change=""):
    """Outputs, with one thing changed."""
    T, A = len(u), complex(-rate, frequency)
    power = torch.exp(A * delta * torch.arange(T + 1, dtype=u.dtype))
    B_bar, power = (power[1] - 1) / A, power[:T]
    if fault == "D":
        B_bar = {"D as Euler": delta, "D as none": B_bar}.get(change, 1)
    k = 2 * (power * B_bar).real
    if fault == "B":
        k = {"B as none": k, "B of the magnitude": (power * B_bar).abs()}.get(change, k / 2)
    if change == "short kernel":
        k = k * (torch.arange(T) < 64)
    if fault == "C" and change == "C on a circle":
        k = k.roll(1)
    elif fault == "C" and change != "C early":
        k = torch.cat([0 * k[:1], k[:-1]])
    n = {"A with one zero": T + 1, "A as none": 2 * T}.get(change, T) if fault == "A" else 2 * T
    if change == "all on a circle":
        n = T
    y = torch.fft.irfft(torch.fft.rfft(u, n) * torch.fft.rfft(k, n), n)[:T]
    if fault == "C" and change == "C early":
        k = torch.cat([k[1:], 0 * k[:1]])
        y = torch.fft.irfft(torch.fft.rfft(u, n) * torch.fft.rfft(k, n), n)[:T]
    return y


@mistake("Only A is without zeros. The others pad, and so does the right program.", replaces="outputs")
def all_on_a_circle(fault, u, delta, rate, frequency):
    return _run(fault, u, delta, rate, frequency, "all on a circle")


@mistake("A is written here like the right program: its FFT has T places, no more.", replaces="outputs")
def a_as_none(fault, u, delta, rate, frequency):
    return _run(fault, u, delta, rate, frequency, "A as none")


@mistake("In A there is no zero at all. You pad by one.", replaces="outputs")
def a_with_one_zero(fault, u, delta, rate, frequency):
    return _run(fault, u, delta, rate, frequency, "A with one zero")


@mistake("B lacks the 2, not the Re: half of the right output.", replaces="outputs")
def b_of_the_magnitude(fault, u, delta, rate, frequency):
    return _run(fault, u, delta, rate, frequency, "B of the magnitude")


@mistake("In C a 0 comes first, and the last tap is lost. You moved it to the front.", replaces="outputs")
def c_on_a_circle(fault, u, delta, rate, frequency):
    return _run(fault, u, delta, rate, frequency, "C on a circle")


@mistake("In C the kernel is late. Yours begins with the second tap: it is early.", replaces="outputs")
def c_early(fault, u, delta, rate, frequency):
    return _run(fault, u, delta, rate, frequency, "C early")


@mistake("That is Euler's Delta B. In D there is no Delta at the input: B_bar = B = 1.", replaces="outputs")
def d_as_euler(fault, u, delta, rate, frequency):
    return _run(fault, u, delta, rate, frequency, "D as Euler")


@mistake("D is written here like the right program: in D B_bar is B itself, 1.", replaces="outputs")
def d_as_none(fault, u, delta, rate, frequency):
    return _run(fault, u, delta, rate, frequency, "D as none")


@mistake("A = -r + i omega: a rate of decay has a minus. Your channel grows.", replaces="outputs")
def growing(fault, u, delta, rate, frequency):
    return _run(fault, u, delta, -rate, frequency)


@mistake(
    "omega is in radians: it is the imaginary part of A as it stands, without a 2 pi.", replaces="outputs"
)
def frequency_in_turns(fault, u, delta, rate, frequency):
    return _run(fault, u, delta, rate, 2 * math.pi * frequency)


@mistake("A and C are swapped: A is the one without zeros, C the one that is late.", replaces="outputs")
def letters_swapped(fault, u, delta, rate, frequency):
    return _run({"A": "C", "C": "A"}.get(fault, fault), u, delta, rate, frequency)


@mistake(
    "Divided by the powers of A_bar, which in a long sequence become too small for any number. Sum what differs in age, "
    "or go token by token.",
    replaces="outputs",
)
def divided_by_powers(fault, u, delta, rate, frequency):
    if fault in "AC":
        return _run(fault, u, delta, rate, frequency)
    A = torch.complex(torch.tensor(-rate, dtype=u.dtype), torch.tensor(frequency, dtype=u.dtype))
    power = (A * delta * torch.arange(len(u))).exp()
    B_bar = 1.0 if fault == "D" else ((A * delta).exp() - 1) / A
    y = (B_bar * power * (u / power).cumsum(0)).real
    return y if fault == "B" else 2 * y


@mistake(
    "Your kernel ends after 64 steps. At a small rate it lasts longer: give it the length of the input.",
    replaces="outputs",
)
def kernel_of_64_steps(fault, u, delta, rate, frequency):
    return _run(fault, u, delta, rate, frequency, "short kernel")


@also_right(replaces="outputs")
def token_by_token(fault, u, delta, rate, frequency):
    A = torch.tensor(complex(-rate, frequency), dtype=torch.complex128)
    A_bar = (delta * A).exp()
    B_bar = torch.ones_like(A) if fault == "D" else (A_bar - 1) / A
    S, states = torch.zeros_like(A), []
    for one in u.tolist():
        states.append(S)
        S = A_bar * S + B_bar * one
    states.append(S)
    y = states[:-1] if fault == "C" else states[1:]
    if fault == "A":  # what comes after a token stands before it, too, but not the token's past once more
        y = [now + A_bar ** (t + 1) * S - A_bar ** len(u) * now for t, now in enumerate(y)]
    return (1 if fault == "B" else 2) * torch.stack(y).real.to(u.dtype)


@also_right(replaces="outputs")
def by_tables(fault, u, delta, rate, frequency):
    T, A = len(u), torch.tensor(complex(-rate, frequency), dtype=torch.complex128)
    age = torch.arange(T)[:, None] - torch.arange(T)
    if fault == "A":
        age = age % T
    if fault == "C":
        age = age - 1
    B_bar = 1.0 if fault == "D" else ((delta * A).exp() - 1) / A
    table = torch.where(age >= 0, (B_bar * (A * delta * age.clamp(min=0)).exp()).real, 0.0)
    return table @ u * (1 if fault == "B" else 2)
