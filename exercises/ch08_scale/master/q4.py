# %% [markdown] q4 measure, 4 points, 30 minutes, level 2
# ## Two sizes up
#
# Models of one architecture have read the same text. Their losses at three rising sizes are known, and that at a larger one is asked. The larger a
# model is, the lower is its loss: neighbours differ by more than a part in a million. The largest is at least twice
# as large as the smallest.
#
# 1. Put $L = E + A\,N^{-\alpha}$ through the three points *exactly*, and return its value at `target`. (Eliminate $E$ and $A$;
#    one equation for $\alpha$ is left. It has one solution between 0.001 and 5 for all inputs, which halving an interval finds. $E$ may come out below zero.)
# 2. For comparison: the straight line through $\log L$ against $\log N$, by least squares through the three points, at `target`.
# 3. To try it on (the first input of the check): `small` are HGRN2's losses on novels at 0.2M, 0.8M and 2M. What do you expect at 14.17 million
#    parameters, by the curve and by the line?

# %% given q4
small = ([195_648, 792_704, 2_215_872], [1.3898, 1.2493, 1.1789])

# %% answer q4
def by_curve(N, L, target):
    """E + A target^-alpha through three points; N and L are lists."""
    # BEGIN SOLUTION
    def gaps(alpha):
        x1, x2, x3 = (n**-alpha for n in N)
        return (x1 - x2) / (x2 - x3)

    wanted = (L[0] - L[1]) / (L[1] - L[2])
    low, high = 1e-3, 5.0
    for _ in range(100):
        alpha = (low + high) / 2
        low, high = (alpha, high) if gaps(alpha) < wanted else (low, alpha)
    A = (L[0] - L[1]) / (N[0] ** -alpha - N[1] ** -alpha)
    return L[0] + A * (target**-alpha - N[0] ** -alpha)
    # END SOLUTION


def by_line(N, L, target):
    """The line through log L against log N."""
    # BEGIN SOLUTION
    slope, start = np.polyfit(np.log(N), np.log(L), 1)
    return math.exp(start + slope * math.log(target))
    # END SOLUTION

# %% [markdown] solution q4
# $\frac{L_1-L_2}{L_2-L_3} = \frac{N_1^{-\alpha}-N_2^{-\alpha}}{N_2^{-\alpha}-N_3^{-\alpha}}$ has neither $E$ nor $A$ in it, and its right side
# rises with $\alpha$. (Where the sizes have a common ratio $r$ it is $r^{\alpha}$, and no search is needed.)
#
# At 14.17 million the curve says 1.097 and the line 1.034. The model that was trained, six times as large as the largest of the three, has 1.104.
# So three small runs foretell a fourth to 0.7 %, and the line is off by ten times as much, for want of an $E$.
# On prose the other architectures come out as well, to 0.8 %. On code HGRN2 and cosFormer2 do, to 1.2 %, but LLaMA is foretold 6 % too
# high and TNL 9 %: of LLaMA's smallest models one had not learned what the larger ones have, and TNL's have one head or two. A curve
# foretells what is of one kind with the runs it goes through.


# %% checks q4
@define_question(INFO["q4"], by_curve=by_curve, by_line=by_line)
def q4(rng):
    calls = [
        Call("by_curve", (*small, 14_171_136.0), "HGRN2 on novels, 14.17 million", Close(1e-6)),
        Call("by_line", (*small, 14_171_136.0), "HGRN2 on novels, 14.17 million", Close(1e-9)),
    ]
    for n in range(6):
        N = (10 ** (5 + np.array([0.0, *rng.uniform(0.3, 0.9, 2)]).cumsum())).tolist()
        E, alpha = float(rng.uniform(0.2, 1.5)), float(rng.uniform(0.15, 0.9))
        A = float(rng.uniform(0.8, 4.0))
        if n == 3:
            E, alpha = -0.3, 0.12
        if n == 4:                                # nearly a line of L against log N
            alpha = float(rng.uniform(0.00105, 0.0012))
            A = float(rng.uniform(0.25, 0.35)) / alpha
            E = 3 - A
        if n == 5:                                # nearly at E
            E, alpha = 0.5, float(rng.uniform(4.7, 4.9))
        L = [E + A * (x / N[0]) ** -alpha for x in N]
        target = N[2] * float(rng.uniform(3, 60))
        text = f"sizes {N[0]:.2g}, {N[1]:.3g}, {N[2]:.3g}, target {target:.3g}"
        calls.append(Call("by_curve", (N, L, target), text, Close(1e-6)))
        calls.append(Call("by_line", (N, L, target), text, Close(1e-9)))
    steep = [1e5, 1e6, 1e7], [20.0, 14.0, 8.0140753], 3e7  # the line of L against log N bends hardly at all, and E is far below 0
    calls.append(Call("by_curve", steep, "losses 20, 14 and 8.0140753 at sizes 1e5, 1e6 and 1e7, target 3e7", Close(1e-6)))
    bent = [55066605608.539925, 900803795702.4282, 3510780174807.6763], [23.15528030541025, 16.49834716226581, 13.80335602039046], 2.1012380895871453e17
    calls.append(Call("by_curve", bent, "losses 23.2, 16.5 and 13.8 at sizes 5.5e10, 9.01e11 and 3.51e12, target 2.1e17", Close(1e-6)))
    calls.append(Call("by_curve", ([4.3e7, 7.18e7, 3.05e8], [98.5, 74.6, 29.0], 1.27e9), "losses 98.5, 74.6 and 29 at sizes 4.3e7, 7.18e7 and 3.05e8, target 1.27e9", Close(1e-6)))
    between = [192339867.41372275, 3241000108.336169, 29426429559.205917], [46.82924534652531, 37.760927562142875, 31.016817068858842], 2684241446305785.5
    calls.append(Call("by_curve", between, "losses 46.8, 37.8 and 31 at sizes 1.9e8, 3.24e9 and 2.94e10, target 2.7e15", Close(1e-6)))  # 30 halvings are too few
    alike = [303725, 305245, 584476439], [8.9999986, 8.9930585, 3.1483243], 5844764390000.0
    calls.append(Call("by_curve", alike, "losses 9, 8.99 and 3.15 at sizes 303,725, 305,245 and 5.8e8, target 5.8e12", Close(1e-6)))  # two points nearly in one
    for _ in range(60):                           # sizes of any magnitude, near or far; losses below 1 and above 5, E below 0 or not
        N = (10 ** (rng.uniform(2, 11) + np.array([0.0, *rng.uniform(0.152, 1.5, 2)]).cumsum())).tolist()
        alpha, last, part = (10 ** rng.uniform((-2, -1.3, -1), (0.2, 1.5, 1.5))).tolist()
        L = [last + part * last * ((x / N[0]) ** -alpha - (N[2] / N[0]) ** -alpha) for x in N]
        target = N[2] * float(10 ** rng.uniform(0.01, 5))
        text = f"losses {L[0]:.3g}, {L[1]:.3g}, {L[2]:.3g} at sizes {N[0]:.2g}, {N[1]:.3g}, {N[2]:.3g}, target {target:.3g}"
        calls.append(Call("by_curve", (N, L, target), text, Close(1e-6)))
        calls.append(Call("by_line", (N, L, target), text, Close(1e-9)))
    first = 3 * float(rng.uniform(0.95, 1.05))
    for N, steps, target in (                      # the smallest steps, in losses and in sizes
        ([1e6, 1e7, 1e8], (1.33e-6, 1.1e-6 * float(rng.uniform(0.97, 1.03))), 1e13),
        ([1e13, 1.4e13, 2e13], (0.05, 0.044 * float(rng.uniform(0.97, 1.03))), 3e13),
    ):
        L = [first, first * (1 - steps[0]), first * (1 - steps[0] - steps[1])]
        text = f"losses that fall by {steps[0]:.3g} and {steps[1]:.3g} of {first:.3g} at sizes {N[0]:g}, {N[1]:g} and {N[2]:g}, target {target:g}"
        calls.append(Call("by_curve", (N, L, target), text, Close(1e-6)))
        calls.append(Call("by_line", (N, L, target), text, Close(1e-9)))
    for more in rng.uniform((4e-4, 7e-6), (6e-4, 9e-6)).tolist():  # sizes that have nearly a common ratio
        N, L = [1e6, 1e7, 1e8 * (1 + more)], [4.0, 3.0, float(rng.uniform(2.3, 2.5))]
        text = f"losses 4, 3 and {L[2]:.3g} at sizes 1e6, 1e7 and {N[2]:.8g}, target 1e11"
        calls.append(Call("by_curve", (N, L, 1e11), text, Close(1e-6)))
    unit, target = (rng.uniform((0.98, 3.6e12), (1.02, 3.8e12))).tolist()  # two points nearly in one again, and a loss that hardly falls there
    L = [unit * one for one in (1.02, 1.0199985037087276, 0.40955102512429203)]
    text = f"losses {L[0]:.9g}, {L[1]:.9g} and {L[2]:.3g} at sizes 5,979,233, 5,979,259 and 4.4e7, target {target:.3g}"
    calls.append(Call("by_curve", ([5979233.0, 5979259.0, 44382881.0], L, target), text, Close(1e-6)))
    return calls
