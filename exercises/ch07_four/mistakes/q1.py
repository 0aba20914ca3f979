"""Known answers to question 1: a state that turns."""

import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _attend(q, k, v, speed, log_decay, state, change=""):
    """Token by token, with one thing changed."""
    S, outputs = torch.view_as_complex(state.contiguous()), []
    if change == "empty":
        S = torch.zeros_like(S)
    for t in range(len(q)):
        decay = torch.zeros_like(speed) if change == "no decay" else log_decay[t]
        step = torch.exp(torch.complex(decay, -speed if change == "backwards" else speed))[:, None]
        write = torch.outer(k[t], v[t])
        before = S
        S = step * (S + write) if change == "own" else step * S + write
        if change == "alone":
            S = step.real * before + write
        seen = before + write if change == "late" else S
        read = {"imaginary": seen.imag, "size": seen.abs(), "twice": 2 * seen.real}.get(change, seen.real)
        outputs.append(q[t] @ read)
    return torch.stack(outputs), torch.view_as_real(S.contiguous())


@mistake("The start state is given: a sequence that goes on has one.")
def from_an_empty_state(q, k, v, speed, log_decay, state):
    return _attend(q, k, v, speed, log_decay, state, "empty")


@mistake("The decay is missing: a step is alpha times the turn.")
def without_decay(q, k, v, speed, log_decay, state):
    return _attend(q, k, v, speed, log_decay, state, "no decay")


@mistake("What a token writes has neither turned nor decayed when it is read: turn first, then write.")
def own_write_turned(q, k, v, speed, log_decay, state):
    return _attend(q, k, v, speed, log_decay, state, "own")


@mistake("The outputs are right, but the state turns backwards: e^(+i omega n) was asked for.")
def backwards(q, k, v, speed, log_decay, state):
    return _attend(q, k, v, speed, log_decay, state, "backwards")


@mistake("The old state is to turn and to decay before it is read, also in the output of its own token.")
def reads_the_state_before(q, k, v, speed, log_decay, state):
    return _attend(q, k, v, speed, log_decay, state, "late")


@mistake("The cosine is the real part. The imaginary one is a sine.")
def imaginary_part(q, k, v, speed, log_decay, state):
    return _attend(q, k, v, speed, log_decay, state, "imaginary")


@mistake("The size of a complex number has no turn in it. The cosine is the real part.")
def size_of_the_state(q, k, v, speed, log_decay, state):
    return _attend(q, k, v, speed, log_decay, state, "size")


@mistake("2 Re belongs to a pair of conjugates, as in S4D. Here the cosine is the real part, once.")
def twice_the_real_part(q, k, v, speed, log_decay, state):
    return _attend(q, k, v, speed, log_decay, state, "twice")


@mistake(
    "A product of cosines of single steps is no cosine of the whole way: the sine must be carried as well.",
)
def cosines_alone(q, k, v, speed, log_decay, state):
    return _attend(q, k, v, speed, log_decay, state, "alone")


@mistake("Speeds may be below 0: then the state turns the other way.")
def speeds_without_sign(q, k, v, speed, log_decay, state):
    return _attend(q, k, v, speed.abs(), log_decay, state)


def _factored(q, k, v, speed, log_decay, state, share):
    """Whole tables, whose steps are measured from a share of all decays."""
    T, i, total = len(q), torch.arange(1, len(q) + 1)[:, None], log_decay.cumsum(0)
    at = share * total[-1]
    late, early = torch.complex(total - at, speed * i).exp(), torch.complex(at - total, -speed * i).exp()
    way, end = torch.complex(total, speed * i).exp(), torch.complex(total[-1] - total, speed * (T - i)).exp()
    S = torch.view_as_complex(state.contiguous())
    outputs = ((q * late) @ (k * early).mT).real.tril() @ v + ((q * way) @ S).real
    return outputs, torch.view_as_real(way[-1][:, None] * S + (k * end).mT @ v.to(S.dtype))


@mistake("Divided by the steps so far, which strong decays make too small for any number: go token by token.")
def divided_by_steps(q, k, v, speed, log_decay, state):
    return _factored(q, k, v, speed, log_decay, state, 0.0)


@mistake(
    "Measured from half of all decays, half of the powers are above 1 still, and overflow where a channel "
    "forgets all at each token. Take differences of sums first, or go token by token."
)
def powers_around_the_middle(q, k, v, speed, log_decay, state):
    return _factored(q, k, v, speed, log_decay, state, 0.5)


@also_right()
def by_tables(q, k, v, speed, log_decay, state):
    T = len(q)
    total = log_decay.cumsum(0)
    t = torch.arange(T, dtype=q.dtype)
    gap = (total[:, None] - total).masked_fill((t[:, None] < t)[..., None], -torch.inf)
    turned = ((t[:, None] - t)[..., None] * speed).cos()
    table = torch.einsum("tc,jc,tjc->tj", q, k, gap.exp() * turned)
    start = torch.view_as_complex(state.contiguous())
    way = torch.exp(torch.complex(total, (t[:, None] + 1) * speed))
    outputs = table @ v + torch.einsum("tc,tcv->tv", q, (way[..., None] * start).real)
    end = torch.exp(torch.complex(total[-1] - total, (T - 1 - t)[:, None] * speed))
    last = way[-1][:, None] * start + torch.einsum("tc,tv->cv", end * k, v.to(end.dtype))
    return outputs, torch.view_as_real(last)


@also_right()
def by_real_parts(q, k, v, speed, log_decay, state):
    re, im = state[..., 0].clone(), state[..., 1].clone()
    cos, sin, outputs = speed.cos()[:, None], speed.sin()[:, None], []
    for t in range(len(q)):
        alpha = log_decay[t].exp()[:, None]
        re, im = alpha * (cos * re - sin * im), alpha * (sin * re + cos * im)
        re = re + k[t][:, None] * v[t]
        outputs.append((q[t][:, None] * re).sum(0))
    return torch.stack(outputs), torch.stack([re, im], -1)
