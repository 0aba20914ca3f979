"""Known answers to question 1: from when on is it worth forgetting?"""

import math

from linattn_exercises.known_mistakes import also_right, mistake


@mistake(
    "One pair is in the way. Compare with the ages: a smaller g raises the noise of the younger pairs.",
    replaces="first_length",
)
def as_soon_as_one_is_dead(L):
    return L + 1


@mistake(
    "Almost: at T = 2L - 1 the two sides balance, and gamma = 1 is still as good as any.",
    replaces="first_length",
)
def where_it_balances(L):
    return 2 * L - 1


@mistake(
    "The oldest of L has age L - 1, not L; and where both sides balance, nothing is gained yet.",
    replaces="first_length",
)
def one_too_many(L):
    return 2 * L + 1


@mistake(
    "There a plain sum costs as much as an endless stream. Here gamma = 1 is compared with the best gamma.",
    replaces="first_length",
)
def e_times_L(L):
    return math.ceil(math.e * L)


@mistake("1 - 1/L is the best gamma squared. Take the root.", replaces="best_decay")
def not_rooted(L, T):
    return 1.0 if T < 2 * L and L > 1 else 1 - 1 / L if math.inf == T else _best(L, T) ** 2


@mistake(
    "That is the theorem's decay, for streams without end. Here T pairs have been written.",
    replaces="best_decay",
)
def always_without_end(L, T):
    return math.sqrt(1 - 1 / L)


@mistake("The age of the oldest of L live pairs is L - 1: the newest has age 0.", replaces="best_decay")
def age_of_L(L, T):
    return _best(L + 1, T)


@mistake("Above T = 2L right. Below, forgetting does harm: the best gamma is 1.", replaces="best_decay")
def forgets_in_short_texts(L, T):
    if L > 1 and T < 2 * L:
        return math.sqrt(1 - 1 / L)
    return _best(L, T)


@mistake(
    "That decay has a half-life of L. The best one has about 1.4 L: the oldest live pair still weighs 0.6.",
    replaces="best_decay",
)
def half_life_of_L(L, T):
    return 2 ** (-1 / L)


def _best(L, T):
    """The right answer."""
    if T < 2 * L and L > 1:
        return 1.0
    if math.inf == T or L == 1:
        return math.sqrt(1 - 1 / L)
    low, high = 0.0, 1.0
    for _ in range(60):
        g = (low + high) / 2
        rises = sum((j - L + 1) * g**j for j in range(T)) >= 0
        low, high = (low, g) if rises else (g, high)
    return math.sqrt(low)


@mistake(
    "From T = 2L on that is the theorem's decay, for streams without end. With T pairs the best one lies between it "
    "and 1.",
    replaces="best_decay",
)
def without_end_from_twice_on(L, T):
    return 1.0 if L > 1 and T < 2 * L else math.sqrt(1 - 1 / L)


@mistake(
    "Right without end. For finite T you returned g, which is gamma squared: take the root there too.",
    replaces="best_decay",
)
def not_rooted_if_finite(L, T):
    return _best(L, T) if math.inf == T else _best(L, T) ** 2


@mistake("1 - 1/(2L) is only near the root of 1 - 1/L. Six digits are asked for.", replaces="best_decay")
def first_terms_of_the_root(L, T):
    return 1 - 1 / (2 * L) if math.inf == T and L > 1 else _best(L, T)


@mistake(
    "One age too many: the oldest of L live pairs has age L - 1, and T pairs end at T - 1.",
    replaces="best_decay",
)
def ages_from_one(L, T):
    if L == 1:
        return 0.0
    return 1.0 if T < 2 * L else _best(L + 1, T + 1)


@mistake(
    "A text of a few times L is not endless yet: the best decay is further from the theorem's than six digits.",
    replaces="best_decay",
)
def endless_too_early(L, T):
    return math.sqrt(1 - 1 / L) if T > 4 * L else _best(L, T)


@mistake(
    "Your sum ends at a thousand pairs. T may be larger, and a text without end has no last pair: take the "
    "theorem's decay there.",
    replaces="best_decay",
)
def ends_at_a_thousand(L, T):
    return 0.0 if L == 1 else _best(L, min(T, 1000))


@also_right(replaces="best_decay")
def by_golden_section(L, T):
    if math.inf == T:
        return math.sqrt(1 - 1 / L)

    def cost(log_g):  # logarithm of the sum over ages of g^(j - a), which has one valley
        most = (1 - L) * log_g
        return most + math.log(sum(math.exp(j * log_g) for j in range(T)))

    low, high = -8.0, 0.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if cost(a) < cost(b) else (a, high)
    return math.exp(high / 2) if L > 1 else 0.0


@also_right(replaces="first_length")
def by_trying(L):
    T = L
    while sum(j - L + 1 for j in range(T)) <= 0:  # the slope at gamma = 1
        T += 1
    return T
