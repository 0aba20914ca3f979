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


@mistake("The period is right; in place of the half-life stands the rate, -ln |A_bar|. It is ln 2 over that.")
def rate(y):
    half_life, period = _memory(_hankel(y))
    return math.log(2) / half_life, period


@mistake("The period is right; your half-life is in periods. Steps are asked for.")
def half_life_in_periods(y):
    half_life, period = _memory(_hankel(y))
    return half_life / period, period


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


@mistake(
    "The period is right; a half-life may be far shorter than the response, and yours is never below T/25. "
    "Search from 3 steps on."
)
def half_life_limited_by_the_length(y):
    half_life, period = _memory(_hankel(y))
    return max(half_life, len(y) / 25), period


@mistake(
    "A search that ends at a fixed squared error ends at once where the response is quiet. Compare the error with "
    "the sum of y^2."
)
def ends_at_a_fixed_error(y):
    if y.square().sum() < 1e-12:  # anything is good enough then, where the search starts too
        return len(y) / 4, len(y) / 3
    return _memory(_hankel(y))


@also_right()
def best_fit_of_the_whole_response(y):
    l = torch.arange(len(y), dtype=y.dtype)

    def errors(lives, periods):
        fade = (-math.log(2) / lives[:, None] * l).exp()  # [lives, T]
        turn = 2 * math.pi / periods[:, None] * l  # [periods, T]
        basis = fade[:, None, :, None] * torch.stack([turn.cos(), turn.sin()], -1)  # [lives, periods, T, 2]
        c = torch.linalg.solve(basis.mT @ basis, basis.mT @ y[:, None])
        return ((basis @ c)[..., 0] - y).square().sum(-1)

    life, period = (
        torch.logspace(math.log10(a), math.log10(b), n) for a, b, n in ((2, 400, 12), (2.1, 450, 160))
    )
    near = torch.linspace(-1, 1, 5)
    width = torch.tensor([0.5, 0.034])
    for _ in range(80):
        found = errors(life.double(), period.double())
        m, n = divmod(int(found.argmin()), len(period))
        moved = len(life) == 5 and (m, n) != (2, 2)
        width = width if moved else width / 2
        if width[0] < 2e-4:
            break
        life, period = life[m] * (2 * width[0] * near).exp(), period[n] * (2 * width[1] * near).exp()
        period = period.clamp(min=2.05)
    return life[2].item(), period[2].item()
