# %% [markdown] q3 diagnose, 4 points, 25 minutes, level 2
# ## Four faults of a convolution
#
# Four programs compute a channel by its kernel, and each is wrong in one way:
#
# - `"A"`: input and kernel are not padded with zeros before the FFT;
# - `"B"`: the factor 2 of $2\operatorname{Re}$ is missing;
# - `"C"`: the kernel comes one step late, $\kappa_l$ at place $l + 1$ and a 0 at place 0, as if the state were
#   read before the input is written;
# - `"D"`: $B$ is not discretised, $\bar B = B$.
#
# All else is as in the chapter: one complex number of state, $A = -r + i\omega$ with a rate $r > 0$ and a
# frequency $\omega$, $B = C = 1$, the zero-order hold, no skip. The input is as plain as can be, eight
# ones, with $\Delta = 0.5$, $r = 1$ and $\omega = 2$. Three of the four gave the outputs in `symptoms`.
# Which is which?
#
# Then write what all four give for any input and any channel of this kind, and what the right program
# gives. The check compares nine digits, and eight where a step does hardly anything ($\Delta|A|$ is at least $10^{-7}$, and at most 400).

# %% given q3
symptoms = {
    "first": [2.0, 2.655, 2.349, 1.907, 1.731, 1.777, 1.873, 1.918],
    "second": [0.416, 0.416, 0.416, 0.416, 0.416, 0.416, 0.416, 0.416],
    "third": [0.339, 0.364, 0.257, 0.177, 0.164, 0.185, 0.203, 0.208],
}

# %% answer q3
first = None
# BEGIN SOLUTION
first = "D"
# END SOLUTION
second = None
# BEGIN SOLUTION
second = "A"
# END SOLUTION
third = None
# BEGIN SOLUTION
third = "B"
# END SOLUTION


def outputs(fault, u, delta, rate, frequency):
    """Outputs [T] for u [T] and a fault, "A" to "D", or "none"."""
    # BEGIN SOLUTION
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
    # END SOLUTION

# %% [markdown] solution q3
# With ones for an input, the right output at $t$ is the sum of the kernel up to $l = t$. It begins with
# $k_0 = 2\operatorname{Re}\bar B = 0.677$ and tends to $2\operatorname{Re}(-1/A) = 0.4$, where the
# continuous system comes to rest. **D** begins with 2 and rests near $1 + 0.4/\Delta$: nothing tells the
# input how long a step is, so the same signal, sampled twice as often, gives another output. **A** adds
# to each output what has gone round the circle, which makes all of them the sum of the whole kernel. No
# other program has a first output that depends on the last input, so a change of the last input is the
# test for this fault. **B** is right but for a factor, which training absorbs in $C$; it shows when
# weights are loaded that were trained with the 2. **C** is right but a token late, as if the state were
# read before it is written. With a skip $D u_t$ beside it a layer trains well enough, and the loss does
# not tell.

# %% checks q3
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
