"""Checks of ``ch07_four``, generated from master/*.py by ``make exercises``: edit those."""


import math

import torch


from linattn_exercises.calls import Call
from linattn_exercises.comparison import Close, Exactly, Within
from linattn_exercises.questions import QuestionInfo, define_question


VERSION = "bd6c229a73ac"
INFO = {
    "q1": QuestionInfo(
        "ch07_four", "q1", 'A state that turns',
        "implement", points=5, minutes=30, level=3,
    ),
    "q2": QuestionInfo(
        "ch07_four", "q2", 'Find the misprint',
        "derive", points=3, minutes=20, level=1,
    ),
    "q3": QuestionInfo(
        "ch07_four", "q3", 'Four counters',
        "diagnose", points=4, minutes=25, level=2,
    ),
    "q4": QuestionInfo(
        "ch07_four", "q4", 'One softmax in how many?',
        "derive", points=4, minutes=25, level=2,
    ),
    "q5": QuestionInfo(
        "ch07_four", "q5", 'A law, counted anew',
        "measure", points=4, minutes=25, level=2,
    ),
}


# --- q1: A state that turns ---


def attend(q, k, v, speed, log_decay, state):
    """Outputs [T, V] and the last state [K, V, 2].

    q, k, log_decay [T, K], v [T, V], speed [K] in radians, state [K, V, 2].
    """
    S, outputs = torch.view_as_complex(state), []
    for t in range(len(q)):
        step = torch.exp(torch.complex(log_decay[t], speed))
        S = step[:, None] * S + torch.outer(k[t], v[t])
        outputs.append(q[t] @ S.real)
    return torch.stack(outputs), torch.view_as_real(S)


@define_question(INFO["q1"], attend=attend)
def q1(rng):
    calls = []
    for T, K, V, fast, least, filled in (
        (6, 3, 2, 1.0, -0.5, False),
        (1, 3, 4, 2.0, -0.5, True),
        (9, 4, 3, 0.0, -0.5, True),
        (10, 4, 3, 0.0, -0.5, True),
        (12, 4, 3, 3.0, 0.0, True),
        (40, 5, 1, 0.3, 0.0, False),
        (30, 1, 4, 1.0, -0.1, True),
        (60, 4, 3, 0.5, -40.0, True),
        (600, 2, 1, 0.5, -40.0, True),
        (300, 6, 3, 0.1, -0.02, True),
    ):
        q, k = (torch.from_numpy(rng.normal(size=(T, K))) for _ in range(2))
        v, state = (torch.from_numpy(rng.normal(size=size)) for size in ((T, V), (K, V, 2)))
        speed = fast * torch.from_numpy(rng.uniform(0.2, 1.0, size=K))
        if T == 9:                                 # backwards, and beyond half a turn
            speed = torch.from_numpy(rng.uniform((-3.0, -1.0, 3.5, 4.5), (-1.5, -0.2, 4.5, 6.0)))
        if T == 12:
            speed[0] = 0.0                         # one channel does not turn
        log_decay = least * torch.from_numpy(rng.uniform(size=(T, K)))
        if least == -40:
            log_decay[:, :2] = torch.tensor([least, -200.0])  # two channels forget all at each token; sums reach -10,000 and -100,000
        inputs = f"T = {T}, K = {K}, V = {V}, speeds up to {fast:g}, log decays down to {least:g}, "
        inputs += "with a state" if filled else "from an empty state"
        calls.append(Call("attend", (q, k, v, speed, log_decay, state * filled), inputs, Close(1e-9)))
    q, k, v = (torch.from_numpy(rng.normal(size=(14, 3))) for _ in range(3))
    for t, *zero in ((2, v), (4, k), (6, k, v), (8, q, k, v), (10, q), (12, q, v)):
        for x in zero:
            x[t] = 0.0                             # the state turns and decays all the same
    speed, log_decay = torch.from_numpy(rng.uniform(0.2, 1.0, size=3)), torch.from_numpy(rng.uniform(-0.5, -0.1, size=(14, 3)))
    speed[2] = math.pi / 2
    for part, which in (((1.0, 1.0), "with a state"), ((1.0, 0.0), "with a real state"), ((0.0, 1.0), "with an imaginary state")):
        state = torch.from_numpy(rng.normal(size=(3, 3, 2)) * part)
        inputs = f"T = 14, K = 3, V = 3, some queries, keys and values are zeros, {which}"
        calls.append(Call("attend", (q, k, v, speed, log_decay, state), inputs, Close(1e-9)))
    state = 1e6 * torch.from_numpy(rng.normal(size=(3, 3, 2)))  # large, and forgotten by the first token
    log_decay = log_decay.clone()
    log_decay[0] = -40.0
    inputs = "T = 14, K = 3, V = 3, a large state that the first token forgets"
    calls.append(Call("attend", (q, k, v, speed, log_decay, state), inputs, Close(1e-9)))
    for least in (-20.5, -22.0, -24.0, -26.0, -28.0, -30.0, -32.0, -33.0):  # and not quite forgotten
        log_decay = log_decay.clone()
        log_decay[0] = least
        inputs = f"T = 14, K = 3, V = 3, a large state that the first token leaves e^{least:g} of"
        calls.append(Call("attend", (q, k, v, speed, log_decay, state), inputs, Close(1e-9)))
    for least in (-20.5, -22.0, -24.0, -26.0, -28.0, -30.0, -32.0, -33.0):  # nor what a token wrote, by one token or by two
        for later in (0.0, float(rng.uniform(0.2, 0.8))):
            few, k2, v2 = (torch.from_numpy(rng.uniform(0.3, 0.8, size=(3, 3)) * rng.choice((-1.0, 1.0), size=(3, 3))) for _ in range(3))
            few[0], k2[0], v2[0] = 0.0, k2[0].sign() * 1e3, v2[0] * 1.5e3
            gates = torch.from_numpy(rng.uniform(-0.5, -0.1, size=(3, 3)))
            gates[1], gates[2] = (1 - later) * least, later * least
            inputs = f"T = 3, K = 3, V = 3, an empty state, and large writes of which e^{least:g} is left"
            calls.append(Call("attend", (few, k2, v2, speed, gates, torch.zeros_like(state)), inputs, Close(1e-9)))
    q, still = torch.from_numpy(rng.uniform(2.0, 3.0, size=(2, 3))), torch.zeros(3, dtype=torch.float64)
    k, log_decay = torch.zeros(2, 3, dtype=torch.float64), torch.full((2, 3), -40.0, dtype=torch.float64)
    inputs = "T = 2, K = 3, V = 3, a large state that is forgotten, and nothing is written"
    calls.append(Call("attend", (q, k, v[:2], still, log_decay, torch.full_like(state, 1e6)), inputs, Close(1e-9)))
    q, still, state = torch.from_numpy(rng.uniform(2.0, 3.0, size=(2, 16))), torch.zeros(16, dtype=torch.float64), torch.full((16, 3, 2), 1e6, dtype=torch.float64)
    for least in (-40.0, -37.9, -36.0):            # the same with more channels, which together read a little more than nothing
        log_decay, k = torch.full((2, 16), least, dtype=torch.float64), torch.zeros(2, 16, dtype=torch.float64)
        inputs = f"T = 2, K = 16, V = 3, a large state of which e^{least:g} is left, and nothing is written"
        calls.append(Call("attend", (q, k, v[:2], still, log_decay, state), inputs, Close(1e-9)))
    for least in (-34.0, -35.0, -36.0, -37.0, -37.9):  # and what these channels were written
        q, k = torch.from_numpy(rng.uniform((0.0, 2.0), (0.0, 3.0), size=(16, 2))).T.contiguous(), torch.zeros(2, 16, dtype=torch.float64)
        k[0], v = 1e3, torch.tensor([[1.2e3], [0.0]], dtype=torch.float64).repeat(1, 3)
        log_decay = least + torch.from_numpy(rng.uniform(-0.05, 0.05, size=(2, 16)))
        inputs = f"T = 2, K = 16, V = 3, an empty state, and a large write of which about e^{least:g} is left"
        calls.append(Call("attend", (q, k, v, still, log_decay, torch.zeros_like(state)), inputs, Close(1e-9)))
    q, k, v = (torch.from_numpy(rng.normal(size=size)) for size in ((600, 2), (600, 2), (600, 1)))
    speed, log_decay = torch.from_numpy(rng.uniform(0.2, 1.0, size=2)), torch.from_numpy(rng.uniform(-1e-3, 0.0, size=(600, 2)))
    log_decay[:, 0] = -40.0
    inputs = "T = 600, K = 2, V = 1, one channel forgets all at each token, and one hardly anything"
    calls.append(Call("attend", (q, k, v, speed, log_decay, torch.from_numpy(rng.normal(size=(2, 1, 2)))), inputs, Close(1e-9)))
    for n in range(12):                            # all that the text allows, together
        T, K, V = (int(size) for size in rng.integers(1, (13, 6, 6))) if n % 2 else (n // 4 + 2,) * 3
        q, k, v, state, speed, log_decay = (
            torch.from_numpy(rng.normal(size=size)) for size in ((T, K), (T, K), (T, V), (K, V, 2), K, (T, K))
        )
        speed *= float(rng.choice((0.1, 3.0, 12.0)))
        log_decay = -float(rng.choice((0.1, 1.0, 40.0))) * log_decay.abs().clamp(max=1)
        for x, some in ((speed, 0.0), (speed, math.pi / 2), (log_decay, 0.0), (log_decay, -40.0), (q, 0.0), (k, 0.0), (v, 0.0)):
            x[torch.from_numpy(rng.uniform(size=x.shape) < rng.choice((0.0, 0.0, 0.4)))] = some
        state[..., rng.integers(0, 2)] *= float(rng.integers(0, 3) > 0)
        inputs = f"T = {T}, K = {K}, V = {V}, tokens of all kinds"
        calls.append(Call("attend", (q, k, v, speed, log_decay, state), inputs, Close(1e-9)))
    return calls


# --- q2: Find the misprint ---


report = {  # L, D, H, H_kv, F, and parameters in millions
    "I": (12, 768, 12, 4, 2048, 75.5),
    "II": (24, 1024, 16, 4, 2816, 270.5),
    "III": (16, 2048, 32, 8, 8192, 1006.6),
    "IV": (28, 3072, 24, 8, 8192, 2818.6),
    "V": (32, 4096, 32, 8, 14336, 6979.3),
}


def n_parameters(L, D, H, H_kv, F):
    """Parameters of L layers, without norms."""
    return L * (2 * D * D + 2 * D * (D // H) * H_kv + 3 * D * F)


def flops_per_token(T, L, D, H, H_kv, F):
    """Operations for a token, forward and backward."""
    return 6 * n_parameters(L, D, H, H_kv, F) + 12 * L * T * D


misprint = "III"


@define_question(
    INFO["q2"],
    n_parameters=n_parameters,
    flops_per_token=flops_per_token,
    misprint=misprint,
    wrong_values={
        "misprint": {
            "I": "12 layers of 2 D² + 2 D² / 3 + 3 D F are 75.5 million, as printed.",
            "II": "24 layers of 2 D² + 2 D² / 4 + 3 D F are 270.5 million, as printed.",
            "IV": "28 layers of 2 D² + 2 D² / 3 + 3 D F are 2,818.6 million, as printed.",
            "V": "32 layers of 2 D² + 2 D² / 4 + 3 D F are 6,979.3 million, as printed.",
        }
    },
)
def q2(rng):
    exact, calls = Close(1e-12), []
    sizes = [(2, 64, 4, 2, 96), (3, 60, 6, 1, 100), (5, 48, 3, 3, 128), (32, 4096, 32, 8, 14336)]
    for group, H_kv, width, L, F in rng.integers(1, (7, 5, 33, 9, 300), size=(8, 5)).tolist():
        sizes.append((L, group * H_kv * width, group * H_kv, H_kv, F))
    sizes.append((28, 3000, 24, 8, 8191))  # more than float32 counts
    sizes += [(1, 32, 1, 1, 32), (3, 7, 7, 7, 5)]  # one head; heads of width 1
    for one in sizes:
        inputs = "L = {}, D = {}, H = {}, H_kv = {}, F = {}".format(*one)
        calls.append(Call("n_parameters", one, inputs, exact))
    for one in sizes:
        for T in (1, int(rng.integers(2, 5000)), int(rng.integers(10_000, 200_000))):
            inputs = "T = {}, L = {}, D = {}, H = {}, H_kv = {}, F = {}".format(T, *one)
            calls.append(Call("flops_per_token", (T, *one), inputs, exact))
    return [*calls, Call("misprint", (), "", Exactly())]


# --- q3: Four counters ---


counts = {"first": 141.6, "second": 273.7, "third": 732.7}


first = "II"
second = "III"
third = "IV"


def operations(fault, T, L, D, F, vocabulary):
    """Operations for a token by the counter "I" to "IV", or "none"."""
    matrices = L * (4 * D * D + 3 * D * F)
    if fault == "IV":
        matrices += D * vocabulary
    scores = L * 2 * D * T
    if fault == "III":
        scores /= 2
    passes = 1 if fault == "II" else 3
    return passes * (1 if fault == "I" else 2) * (matrices + scores)


@define_question(
    INFO["q3"],
    first=first,
    second=second,
    third=third,
    operations=operations,
    wrong_values={
        "first": {
            "I": "Half of the right count, 424.7, is 212.4.",
            "III": "III counts the matrices in full, 122.7, and half of the scores on top: 273.7.",
            "IV": "IV says more than the right count, 424.7, and not a third of it.",
        },
        "second": {
            "I": "I says half of the right count, 424.7, which is 212.4.",
            "II": "II says a third of the right count, 424.7, which is 141.6.",
            "IV": "With the output layer it would be more than 424.7.",
        },
        "third": {
            "I": "I says half of the right count. This is more than all of it, 424.7.",
            "II": "II says a third of the right count. This is more than all of it, 424.7.",
            "III": "III leaves something out. This is more than the right count, 424.7.",
        },
    },
)
def q3(rng):
    calls = [Call(name, (), "", Exactly()) for name in ("first", "second", "third")]
    sizes: list[tuple[int, ...]] = [(8192, 6, 512, 1536, 100_280), (1, 1, 8, 20, 50), (3, 1, 8, 8, 1)]
    for _ in range(2):
        sizes.append(tuple(rng.integers((10, 1, 8, 10, 20), (5000, 30, 900, 3000, 90_000)).tolist()))
    sizes += [tuple(one) for one in rng.integers(1, (50, 9, 60, 60, 60), size=(6, 5)).tolist()]  # none larger than others
    for fault in ("none", "I", "II", "III", "IV"):
        for one in sizes:
            inputs = "counter {}, T = {}, L = {}, D = {}, F = {}, a vocabulary of {}".format(fault, *one)
            calls.append(Call("operations", (fault, *one), inputs, Close(1e-12)))
    return calls


# --- q4: One softmax in how many? ---


def relative_cost(T, D, H, every):
    """FLOPs of a token over 72 L D^2; with every = math.inf, TNL alone."""
    share = 1 / every
    return 1 + share * T / (6 * D) + (1 - share) / (2 * H) + 5 / (18 * D)


def smallest_every(T, D, H, budget):
    """The smallest m with relative_cost(T, D, H, m) <= budget."""
    left = budget - relative_cost(T, D, H, math.inf)
    more = T / (6 * D) - 1 / (2 * H)        # what a softmax costs more
    return max(1, math.ceil(more / left)) if left > 0 else 0


@define_question(INFO["q4"], relative_cost=relative_cost, smallest_every=smallest_every)
def q4(rng):
    exact, calls = Close(1e-9), []
    shapes: list[tuple[int, ...]] = [(8192, 512, 4), (2048, 1536, 12), (131072, 4096, 32)]
    shapes += [tuple(int(n) * 128 for n in rng.integers((8, 2), (100, 20))) for _ in range(2)]
    shapes = [one if len(one) == 3 else (*one, one[1] // 128) for one in shapes]
    shapes += [(8192, 512, 8), (4096, 1024, 4)]  # heads of 64 and of 256
    for H in (1, 1, *rng.integers(1, 33, size=6).tolist()):
        width, more = int(rng.integers(16, 257)), int(10 ** rng.uniform(0, 6.5))
        shapes.append((3 * width + more, H * width, H))
    for T, D, H in shapes:
        for every in (1, int(rng.integers(2, 12)), int(10 ** rng.uniform(4.5, 6)), math.inf):
            inputs = f"T = {T:,}, D = {D:,}, H = {H}, every {every}"
            calls.append(Call("relative_cost", (T, D, H, every), inputs, exact))
    budgets = [(8192, 512, 4, 1.5), (8192, 4096, 32, 1.34), (8192, 4096, 32, 1.2), (8192, 512, 4, 1.1)]
    budgets += [(65536, 1024, 8, float(rng.uniform(1.2, 3))) for _ in range(2)]
    budgets += [(131072, 512, 4, 1.13), (16384, 1024, 16, float(rng.uniform(1.3, 2.5)))]
    for T, D, H in shapes[3:]:
        edge = relative_cost(T, D, H, int(rng.integers(2, 7)))
        budgets += [(T, D, H, edge + 1e-8), (T, D, H, edge - 1e-8)]
        m, far = int(rng.integers(1, 20)), float(10 ** rng.uniform(-7, 0))
        between = (relative_cost(T, D, H, m) + relative_cost(T, D, H, m + 1)) / 2
        above, below = relative_cost(T, D, H, 1) + far, relative_cost(T, D, H, math.inf) - far
        budgets += [(T, D, H, between), (T, D, H, above), (T, D, H, below)]
    throughout = relative_cost(24576, 768, 6, 1)
    budgets += [(24576, 768, 6, throughout + 1e-8), (24576, 768, 6, throughout - 1e-8)]
    throughout = relative_cost(2**24, 512, 4, 1)     # where a small part of a layer costs more than that
    budgets += [(2**24, 512, 4, throughout + 2e-9), (2**24, 512, 4, throughout - 2e-9)]
    throughout = relative_cost(2**27, 64, 4, 1)      # and what costs a part in 10^14 more
    budgets += [(2**27, 64, 4, throughout + 2e-9), (2**27, 64, 4, throughout - 2e-9)]
    budgets += [(8192, 512, 4, 10.0), (8192, 512, 4, relative_cost(8192, 512, 4, math.inf) - 1e-8)]
    edges = (8192, 2048, 16, 1.28e4, 1.32e4), (2**24, 512, 4, 1.3e6, 1.5e6), (400, 2048, 16, 550, 650), (385, 4096, 32, 80, 90), (385, 4096, 32, 138, 142), (385, 49152, 384, 35, 36), (2**27, 64, 4, 1.19e7, 1.2e7)
    far = (relative_cost(2**27, 512, 4, 3_000_000) + relative_cost(2**27, 512, 4, 3_000_001)) / 2
    budgets.append((2**27, 512, 4, far))
    calls.append(Call("relative_cost", (2**24, 512, 4, math.inf), "T = 16,777,216, D = 512, H = 4, every inf", exact))
    for T, D, H, low, high in edges:
        m = int(rng.uniform(low, high))
        between = (relative_cost(T, D, H, m) + relative_cost(T, D, H, m + 1)) / 2
        budgets.append((T, D, H, between))
    for T, D, H, budget in budgets:
        inputs = f"T = {T:,}, D = {D:,}, H = {H}, a budget of {budget:.10g}"
        calls.append(Call("smallest_every", (T, D, H, budget), inputs, exact))
    return calls


# --- q5: A law, counted anew ---


def fit(compute, loss):
    """(k, a) of L = k C^-a; two lists of the same length."""
    x = torch.tensor(compute, dtype=torch.float64).log()
    y = torch.tensor(loss, dtype=torch.float64).log()
    x_off, y_off = x - x.mean(), y - y.mean()
    slope = (x_off * y_off).sum() / x_off.square().sum()
    return (y.mean() - slope * x.mean()).exp().item(), -slope.item()


def recounted(k, a, factor):
    """(k, a) if every run costs factor times as much."""
    return k * factor**a, a


def compute_needed(first, second, C):
    """What second needs to reach first's loss at C, over C; laws (k, a)."""
    (k1, a1), (k2, a2) = first, second
    log_needed = (math.log(k2 / k1) + a1 * math.log(C)) / a2
    return math.exp(log_needed - math.log(C))


@define_question(INFO["q5"], fit=fit, recounted=recounted, compute_needed=compute_needed)
def q5(rng):
    exact, calls = Close(1e-7), []
    for n, low, high in ((6, -2.0, 2.0), (2, 0.0, 1.0), (30, -1.0, 3.0)):
        logs = rng.uniform(low, high, n).tolist()
        if n > 2:
            logs[3] = logs[2]                  # two runs of one budget
        else:
            logs[1] = logs[0] + float(rng.uniform(0.05, 1) * rng.choice((-1, 1)))
        k, a = float(rng.uniform(2, 5)), float(rng.uniform(0.05, 0.3))
        compute = [10.0**x for x in logs]
        loss = [k * c**-a * float(e) for c, e in zip(compute, rng.uniform(0.97, 1.03, n))]
        calls.append(Call("fit", (compute, loss), f"{n} points", exact))
    for start in (-3, 0, 3, 18) * 3:  # in any order and unit, with and without noise; at an edge losses may be alike or rise
        n = int(rng.integers(2, 12))
        logs = start + rng.uniform(0.5, 4) * rng.permutation(n) / n
        logs[n - 1 : 2 : -2] = logs[0]
        a, noise = rng.choice((0.0, rng.uniform(-0.1, 0), rng.uniform(0, 0.3))), rng.choice((0.0, 0.01, 0.1)) * rng.normal(size=n)
        compute, loss = 10.0**logs, rng.uniform(1, 30) * 10.0 ** (noise - a * logs)
        loss *= max(1.0, 1.01e-6 / loss.min())
        calls.append(Call("fit", (compute.tolist(), loss.tolist()), f"{n} points from C = 1e{start:g} on, a = {a:.2g} but for noise", exact))
    calls.append(Call("fit", ([1.0, 10.0, 100.0, 1000.0], [3.0] * 4), "4 points of one loss", exact))
    calls.append(Call("fit", ([1.0, 1.05, 1.101], [3.0, 2.985, 2.975]), "3 points, budgets that are nearly the same", exact))
    calls.append(Call("fit", ([1e18, 1.05e18, 1.101e18], [3.0, float(rng.uniform(2.984, 2.986)), 2.971]), "3 points, C from 1e18 to 1.101e18", Close(1e-6)))
    calls.append(Call("fit", ([1.0, 10.0, 100.0], [1.0, 1.0, 1.0]), "3 points, each loss is 1", exact))
    calls.append(Call("fit", ([1e-9, 1e-8, 1e-7, 1e-6], [30.0, 25.0, 21.0, 17.0]), "4 points, C from 1e-9 to 1e-6", exact))
    calls.append(Call("fit", ([1e17, 1e19, 1e20, 1e22], [1.8e-5, 5e-6, 2e-6, 1.01e-6]), "4 points, losses from 1.8e-5 to 1.01e-6", exact))
    calls.append(Call("recounted", (18.12, 1.43, 145.85), "k = 18.12, a = 1.43, a factor of 145.85", exact))
    for factor in (2.0, 0.5, 1.0, float(rng.uniform(3, 9))):
        k, a = float(rng.uniform(2, 5)), float(rng.uniform(0.05, 0.3))
        calls.append(Call("recounted", (k, a, factor), f"k = {k:.3g}, a = {a:.3g}, a factor of {factor:.3g}", exact))
    for a in (1.0, 1.5, *rng.uniform(0.01, 2, size=8).tolist()):
        k, factor = (float(10**x) for x in rng.uniform((-1, -3), (2, 3)))
        calls.append(Call("recounted", (k, a, factor), f"k = {k:.3g}, a = {a:.3g}, a factor of {factor:.3g}", exact))
    laws = [((3.7087, 0.0798), (3.5391, 0.0768), 1.0), ((3.7087, 0.0798), (3.5391, 0.0768), 100.0)]
    for _ in range(3):
        one, other = ((float(rng.uniform(2, 5)), float(rng.uniform(0.05, 0.3))) for _ in range(2))
        laws.append((one, other, float(10 ** rng.uniform(-2, 3))))
    laws.append((laws[2][0], laws[2][0], 7.0))
    for first, second, C in laws:
        text = " and ".join(f"{k:.3g} C^-{a:.3g}" for k, a in (first, second))
        calls.append(Call("compute_needed", (first, second, C), f"{text}, C = {C:.3g}", exact))
    small, large = (20.0, 0.06), (60.0, 0.05)        # C in FLOPs; what is needed is far from C
    for first, second in ((small, large), (large, small)):
        text = f"{first[0]:g} C^-{first[1]:g} and {second[0]:g} C^-{second[1]:g}, C = 1e21"
        calls.append(Call("compute_needed", (first, second, 1e21), text, Within(1.0000001)))
    calls.append(Call("compute_needed", ((1.0, 0.3), (60.0, 0.05), 1e24), "1 C^-0.3 and 60 C^-0.05, C = 1e24", Within(1.0000001)))
    calls.append(Call("compute_needed", ((60.0, 0.3), (1.0, 0.05), 0.01), "60 C^-0.3 and 1 C^-0.05, C = 0.01", Within(1.0000001)))
    for first, second in (((3.7, 0.3), (3.5, 0.0501)), ((3.7, 0.0501), (3.5, 0.3))):
        text = f"{first[0]:g} C^-{first[1]:g} and {second[0]:g} C^-{second[1]:g}, C = 0.00101"
        calls.append(Call("compute_needed", (first, second, 0.00101), text, Within(1.0000001)))
    for n in range(54):  # laws of any kind, some with the same k or a
        first, second = ((float(rng.uniform(1, 60)), float(rng.uniform(0.05, 0.3))) for _ in range(2))
        second = (first[0] if n % 3 == 1 else second[0]), (first[1] if n % 3 == 2 else second[1])
        C = float(10 ** rng.uniform(*((-3, 0), (0, 3), (15, 24))[n // 18]))
        text = f"{first[0]:.3g} C^-{first[1]:.3g} and {second[0]:.3g} C^-{second[1]:.3g}, C = {C:.3g}"
        calls.append(Call("compute_needed", (first, second, C), text, Within(1.0000001)))
    for compute, loss, text in (
        ([1e-9, 3e-9, 9e-9], [30.0, 25.0, 21.0], "3 points, C from 1e-9 to 9e-9"),
        ([1.0, 1.05, 1.101], [3.0, 2.999999, 2.9999981], "3 points, budgets and losses that are nearly the same"),
        ([1e6, 1e7, 1e8], [1.9e-6, 1.5e-6, 1.1e-6], "3 points, losses from 1.9e-6 to 1.1e-6"),
        ([1.0, 1.05, 1.101], [1.06e-6, 1.0599993e-6, 1.0599988e-6], "3 points, budgets and losses that are nearly the same, losses near 1e-6"),
    ):
        unit = float(rng.uniform(0.96, 1.04))
        calls.append(Call("fit", (compute, [unit * one for one in loss]), text, exact))
    k, a = float(rng.uniform(3, 4)), float(rng.uniform(0.051, 0.055))
    for second in ((0.95 * k, a + 9e-10), (k * 1.000008, a * 1.000005)):  # nearly one exponent, and nearly one law
        text = f"{k:.3g} C^-{a:.3g} and {second[0]:.6g} C^-{second[1]:.12g}, C = 1e21"
        calls.append(Call("compute_needed", ((k, a), second, 1e21), text, Within(1.0000001)))
    return calls


QUESTIONS = (q1, q2, q3, q4, q5,)
