# %% [markdown] q5 derive, 6 points, 45 minutes, level 3
# ## A task that a state cannot solve
#
# A head keeps a state $s\in\mathbb R^K$ (values of width one) and reads a key by $k\cdot s$. The value of each key is a sign,
# and an answer is right if $k\cdot s$ has it and is not 0. How the state was written does not matter: a sum, the delta rule, or the best $s$ there
# is. Keys are *in general position*: any $K$ of them, or all if there are fewer, are linearly independent (for the check: scaled to length 1,
# their smallest singular value is above $10^{-5}$, in `store`, where $K$ is at most 30, above $10^{-4}$; lengths may be $5\cdot 10^4$ times as large as others).
#
# 1. `store(keys, signs)`: for up to $K$ keys the shortest state with $k_i\cdot s = \text{signs}_i$ for all $i$.
# 2. `design(K)`: a task of as few pairs as possible that *no* state solves, with a proof. Entries of keys are above
#    0, as a feature map such as $e^x$ makes them. Return `keys` [n, K], `signs` [n] of $\pm1$, and `proof` [n]: numbers
#    $c_i \ge 0$, not all 0, with $\sum_i c_i\,\text{signs}_i\,k_i = 0$, in float64. (Why does that prove it?) $K$ is 2 to 30, all of which
#    are asked for: keys that are drawn anew each time may come out nearly dependent at one of them.
# 3. `solvable(n, K)`: with $n$ keys, what share of the $2^n$ ways to give them signs does some state solve? The keys
#    do not matter. Add them one by one: each way that is solvable goes on with one sign of the new key, or with both if a state
#    that solves it has $k_{\text{new}}\cdot s = 0$. Such states see the old keys projected onto $K-1$ dimensions, again in general position. In 0 dimensions
#    nothing is solvable. $n$ is up to 1,000.

# %% answer q5
def store(keys, signs):
    """The shortest state [K] with keys @ state = signs; keys [n, K]."""
    # BEGIN SOLUTION
    return np.linalg.pinv(keys) @ signs
    # END SOLUTION


def design(K):
    """(keys [n, K], signs [n], proof [n]) that no state solves."""
    # BEGIN SOLUTION
    basis = np.eye(K) + 1
    keys = np.vstack([basis, basis.mean(0)])
    signs = np.append(np.ones(K), -1.0)
    return keys, signs, np.append(np.full(K, 1 / K), 1.0)
    # END SOLUTION


def solvable(n, K):
    """The share of all ways to give n keys signs that some state solves."""
    # BEGIN SOLUTION
    ways = sum(math.comb(n - 1, i) for i in range(min(n, K)))
    return 2 * ways / 2**n
    # END SOLUTION

# %% [markdown] solution q5
# If a state $s$ read all signs, $\text{signs}_i\,(k_i\cdot s)$ would be above 0 for every $i$, and so would be $\sum_i
# c_i\,\text{signs}_i\,(k_i\cdot s)$, which is $0\cdot s$. (The converse holds as well, Gordan's theorem: if no state exists, such numbers do.)
#
# Up to $K$ keys can be stored with any signs: $K^+ \text{signs}$, with the pseudoinverse of the keys, solves the equations, and no shorter state does. A sum of
# $\text{signs}_i k_i$ does only if keys are orthogonal and of length 1. So a task without a solution has $K + 1$ pairs at least. Here are $K$ keys with $+$, and their
# mean, in the middle, with $-$. In two dimensions one sees why: of three directions in a quadrant, a line through the origin cannot have the outer two on
# one side and the middle one on the other.
#
# Let $C(n, K)$ be the number of ways that can be solved. Then $C(n+1, K) = C(n, K) + C(n, K-1)$ and $C(1, K) = 2$, so
# $C(n, K) = 2\sum_{i<K}\binom{n-1}{i}$ (Cover, 1965). The share is 1 up to $n = K$, and exactly $\tfrac12$ at $n = 2K$; for large $K$ nearly
# all tasks can be solved below $2K$ and nearly none above. So that *some* task of $K + 1$ pairs is too much says little of most tasks.
# With values that are told apart by the largest of many scores, in place of a sign, one cannot count like this. The chapter fills such states
# by least squares, and finds the same order of magnitude.

# %% checks q5
def _find_flaw(K, task):
    """Return what is wrong with a task and its proof, or None."""
    three = task if isinstance(task, (tuple, list)) and len(task) == 3 else (None,) * 3
    keys, signs, proof = map(as_numbers, three)
    if keys is None or signs is None or proof is None:
        return Difference("", "something else", "a tuple of keys, signs and a proof")
    n = len(signs) if signs.ndim == 1 else 0
    if keys.shape != (n, K) or proof.shape != (n,) or n == 0:
        shapes = ", ".join(str(list(part.shape)) for part in (keys, signs, proof))
        return Difference("", f"shapes {shapes}", f"[n, {K}], [n] and [n]")
    if not all(np.isfinite(part).all() for part in (keys, signs, proof)):
        return Difference("", "an entry that is not finite", "finite numbers")
    if n != K + 1:
        return Difference("", f"{n} pairs", "fewer" if n > K + 1 else "more")
    if keys.min() <= 0:
        return Difference("[0]", f"an entry of {keys.min():g}", "keys with entries above 0")
    if not np.isin(signs, (-1, 1)).all():
        return Difference("[1]", "something else", "signs of 1 and -1")
    if abs(signs.sum()) == n:
        return Difference("[1]", "equal signs", "signs of both kinds")
    largest = keys.max(1)                    # divided by it first: squares of entries over- or underflow
    directions = keys / largest[:, None]
    lengths = np.linalg.norm(directions, axis=1)
    directions /= lengths[:, None]
    for left_out in range(n):
        if not np.linalg.svd(np.delete(directions, left_out, 0), compute_uv=False)[-1] >= 1e-5:
            return Difference("[0]", "keys that are linearly dependent", "any K of them linearly independent")
    if proof.min() < 0:
        return Difference("[2]", f"{proof.min():g}", "numbers of 0 or more")
    if proof.max() == 0:
        return Difference("[2]", "0 everywhere", "a number above 0")
    with np.errstate(divide="ignore"):       # numbers for directions: products, the largest of them 1
        logs = np.log(proof) + np.log(largest) + np.log(lengths)
    weights = np.exp(logs - logs.max())
    total = np.linalg.norm((weights * signs) @ directions)
    if not total <= 1e-11:                   # with singular values above 1e-5 an exact proof is near
        return Difference("[2]", f"a sum of length {total:.3g} (with keys of length 1)", "a sum of 0")
    return None


def _near_a_cone(rng, n):
    """(keys [n, n], signs): all but the last at small angles, the last far shorter and as near to their span as keys may be."""
    axes = np.linalg.qr(rng.normal(size=(n, n)))[0]
    long = axes[0] + rng.uniform(0.04, 0.06, (n - 1, 1)) * np.vstack([np.zeros(n), axes[2:]])
    long /= np.linalg.norm(long, axis=1)[:, None]
    middle, off = long.mean(0) / np.linalg.norm(long.mean(0)), 1e-4
    for _ in range(3):
        keys = np.vstack([long, middle + off * axes[1]])
        off *= 1.03e-4 / np.linalg.svd(keys, compute_uv=False)[-1]
    keys[-1] /= 4.9e4
    return keys[rng.permutation(n)], rng.choice([-1.0, 1.0], n)


@define_question(INFO["q5"], store=store, design=design, solvable=solvable)
def q5(rng):
    exact, calls = Close(1e-8), []
    for n, K in ((1, 3), (3, 3), (2, 6), (8, 8), (10, 24)):
        keys = rng.uniform(0.1, 2.0, (n, K)) + 5 * np.eye(n, K)  # far from dependent, whatever is drawn
        signs = rng.choice([-1.0, 1.0], n)
        if n == 8:
            keys *= 1e-20
        calls.append(Call("store", (keys, signs), f"{n} keys of width {K}, of length {np.linalg.norm(keys[0]):.1g} or so", exact))
    key = rng.uniform(0.5, 1.5, 4)
    across = np.linalg.qr(np.stack([key, rng.normal(size=4)], 1))[0][:, 1]
    keys = np.stack([key, 0.0001 * (key + 1.5e-4 * np.linalg.norm(key) * across)])  # at length 1 its value is 1.06e-4
    signs = rng.choice([-1.0, 1.0]) * np.array([1.0, -1.0])
    calls.append(Call("store", (keys, signs), "two keys at an angle of 0.00015, one shorter", Close(1e-6)))
    axes = np.linalg.qr(rng.normal(size=(8, 8)))[0]  # a short key in the plane of two long ones, but for an angle as small
    keys = np.stack([axes[0] + 0.5 * axes[2], axes[0] + 0.5 * axes[3], 1e-4 * (axes[0] + (axes[2] + axes[3]) / 4 + 1.4e-4 * axes[1])])
    calls.append(Call("store", (keys, np.array([1.0, 1.0, -1.0])), "three keys, a short one near the plane of the others", Close(1e-6)))
    for n in (3, 9, 30):                         # a short one beside a narrow cone of long ones, as near to their plane
        calls.append(Call("store", _near_a_cone(rng, n), f"{n} keys in a cone, one of them shorter", Close(1e-6)))
    keys = np.linalg.qr(rng.normal(size=(3, 3)))[0]  # at right angles and of length 1, but for a hair
    keys[rng.integers(3)] *= 1 + float(rng.uniform(3e-6, 4.5e-6))
    calls.append(Call("store", (keys, rng.choice([-1.0, 1.0], 3)), "three keys of length 1 at right angles, one a hair longer", exact))
    for K in (1, 1, 2, 2, 30, 30, *rng.integers(2, 31, 6).tolist()):  # entries of either sign, any lengths
        n = K if rng.random() < 0.5 else int(rng.integers(1, K + 1))
        left, _, right = np.linalg.svd(rng.normal(size=(n, K)), full_matrices=False)
        keys = left * 10 ** rng.uniform(-1.3, 0, n) @ right  # at length 1 singular values are at least as large
        keys *= 10 ** rng.uniform(*rng.choice(((0.0, 0.0), (-2.0, 2.0), (5.0, 5.0))), (n, 1))
        calls.append(Call("store", (keys, rng.choice([-1.0, 1.0], n)), f"{n} keys of width {K}, entries of either sign", exact))
    for K in range(2, 31):                   # a family of keys may be dependent at some K alone
        calls.append(Call("design", (K,), f"K = {K}", Judged(partial(_find_flaw, K))))
    one_more, few, many = rng.integers((4, 21, 440), (10, 24, 480)).tolist()
    for n, K in ((1, 1), (1, 3), (3, 3), (4, 3), (6, 3), (one_more + 1, one_more), (2, 1), (9, 1), (11, 1), (9, 2), (20, 3), (60, 14), (few, 1), (40, 20), (90, 30), (200, 120), (1000, 500), (1000, many)):
        calls.append(Call("solvable", (n, K), f"{n:,} keys, K = {K}", exact))
    for top in (*[3] * 4, *[30] * 6, *[300] * 6, 1000):
        K = int(rng.integers(top // 2, top)) + 1
        n = min(int(rng.choice((max(K - 1, 1), K, K + 1, 2 * K, K * rng.uniform(1, 3), K * rng.random() + 1))), 1000)
        calls.append(Call("solvable", (n, K), f"{n:,} keys, K = {K}", exact))
    return calls
