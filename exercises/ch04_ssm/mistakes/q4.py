"""Known answers to question 4: what a channel remembers, from its response."""

import math

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _recurrence(y, rows):
    """A_bar from y_{l+2} = p y_{l+1} - q y_l, fitted to the first rows."""
    left = torch.stack([y[1:-1], -y[:-2]], 1)[:rows]
    p, q = torch.linalg.lstsq(left, y[2:, None][:rows]).solution[:, 0].tolist()
    size = math.sqrt(min(max(q, 1e-9), 1 - 1e-9))
    angle = math.acos(min(max(p / 2 / size, -1.0), 1 - 1e-9))
    return complex(size * math.cos(angle), size * math.sin(angle))


def _hankel(y):
    """A_bar, by the singular vectors of the windows."""
    windows = y.unfold(0, len(y) // 2, 1)
    shapes = torch.linalg.svd(windows, full_matrices=False).Vh[:2].T
    return torch.linalg.eigvals(torch.linalg.lstsq(shapes[:-1], shapes[1:]).solution)[0].item()


def _memory(A_bar):
    """Half-life and period."""
    return math.log(2) / -math.log(abs(A_bar)), 2 * math.pi / abs(math.atan2(A_bar.imag, A_bar.real))


@mistake(
    "A fit of the recurrence has rounded numbers on both sides, and slow modes come out too short. "
    "Use numbers "
    "that lie far apart."
)
def recurrence_of_neighbours(y):
    return _memory(_recurrence(y, None))


@mistake("The first four numbers determine it on paper. In bfloat16 they do not say how slow a mode is.")
def first_four(y):
    return _memory(_recurrence(y, 2))


@mistake("The half-life is right; a full turn is 2 pi, so the period is 2 pi over the angle, not 1 over it.")
def without_2_pi(y):
    half_life, period = _memory(_hankel(y))
    return half_life, period / (2 * math.pi)


@mistake("The period is right; after your half-life 1/e is left: multiply it by ln 2.")
def mean_life(y):
    half_life, period = _memory(_hankel(y))
    return half_life / math.log(2), period


@mistake("The half-life is right; in place of the period stands how often it turns a step. Take the inverse.")
def turns_a_step(y):
    half_life, period = _memory(_hankel(y))
    return half_life, 1 / period


@mistake("The half-life is right; between two zeros of the response lies half a period.")
def from_zero_to_zero(y):
    half_life, period = _memory(_hankel(y))
    return half_life, period / 2


@mistake("The period is right; your half-life is that of the square, |A_bar|^2l.")
def of_the_square(y):
    half_life, period = _memory(_hankel(y))
    return half_life / 2, period


@mistake("The half-life comes first, then the period.")
def swapped(y):
    return _memory(_hankel(y))[::-1]


@mistake("The half-life is right; that is the angle of a step in radians, and the period is 2 pi over it.")
def angle(y):
    half_life, period = _memory(_hankel(y))
    return half_life, 2 * math.pi / period


@mistake("The half-life is right; peaks of a spectrum stand at T/1, T/2, T/3: too coarse. Fit between them.")
def peak_of_the_spectrum(y):
    peak = int(torch.fft.rfft(y).abs()[1:].argmax()) + 1
    return _memory(_hankel(y))[0], len(y) / peak


@also_right()
def best_fit_of_the_whole_response(y):
    l = torch.arange(len(y), dtype=y.dtype)

    def error(log_life, log_period):
        power = torch.exp(-math.log(2) * l / math.exp(log_life))
        turn = 2 * math.pi * l / math.exp(log_period)
        basis = torch.stack([power * turn.cos(), power * turn.sin()], 1)
        return (basis @ torch.linalg.lstsq(basis, y[:, None]).solution - y[:, None]).square().sum().item()

    peak = int(torch.fft.rfft(y, 8 * len(y)).abs()[1:].argmax()) + 1
    lives = [math.log(2.5) + n * 0.7 for n in range(8)]
    periods = [math.log(8 * len(y) / peak) + n * 0.05 for n in range(-8, 9)]
    best = min((error(a, b), a, b) for a in lives for b in periods if b > math.log(2))
    width = [0.4, 0.02]
    for _ in range(40):
        found, a, b = best
        tries = [(a + s * width[0], b + t * width[1]) for s in (-1, 1) for t in (-1, 0, 1)]
        tries += [(a, b + t * width[1]) for t in (-1, 1)]
        best = min([(error(*one), *one) for one in tries if one[1] > math.log(2)] + [best])
        if best[0] >= found:
            width = [w / 2 for w in width]
    return math.exp(best[1]), math.exp(best[2])
