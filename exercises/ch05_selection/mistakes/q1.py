"""Known answers to question 1: how loud can a token be?"""

import math

from linattn_exercises.known_mistakes import also_right, mistake


@mistake(
    "That counts halvings: the state keeps e to the power of -a times the step, not 2.", replaces="step_for"
)
def in_halvings(keep, a):
    return -math.log2(keep) / a


@mistake("The rate is missing: the state keeps exp(-a step).", replaces="step_for")
def without_the_rate(keep, a):
    return -math.log(keep)


@mistake(
    "You solved 1 - a step = keep, which is Euler's rule for the decay. Only the write is Euler's in Mamba.",
    replaces="step_for",
)
def euler_for_the_decay(keep, a):
    return (1 - keep) / a


@mistake("With that step the share is lost, not kept.", replaces="step_for")
def share_that_is_lost(keep, a):
    return -math.log(1 - keep) / a


@mistake("The logarithm of a share is negative, and a step is not.", replaces="step_for")
def negative_step(keep, a):
    return math.log(keep) / a


@mistake(
    "That is what one token writes into an empty state. More tokens of the same sign can follow.",
    replaces="largest_state",
)
def one_token(a, low, high, hold):
    return high if hold == "euler" else (1 - math.exp(-a * high)) / a


@mistake(
    "Small steps fill the state, and one large step writes on top. What does a second large step do?",
    replaces="largest_state",
)
def fill_then_shout(a, low, high, hold):
    if hold == "exact":
        return 1 / a
    return math.exp(-a * high) * low / (1 - math.exp(-a * low)) + high


@mistake(
    "That is where the smallest step leads. The fixed point rises with the step.", replaces="largest_state"
)
def smallest_step(a, low, high, hold):
    return 1 / a if hold == "exact" else low / (1 - math.exp(-a * low))


@mistake(
    "You keep with the smallest step and write with the largest. A token has one step for both.",
    replaces="largest_state",
)
def two_steps_in_one_token(a, low, high, hold):
    return 1 / a if hold == "exact" else high / (1 - math.exp(-a * low))


@mistake(
    "The hold's mean is that of a S, not of S: the state is bounded by the largest input only where a = 1.",
    replaces="largest_state",
)
def bounded_by_the_input(a, low, high, hold):
    return 1.0 if hold == "exact" else high / (1 - math.exp(-a * high))


@mistake(
    "The two rules agree for small steps alone. Put equal Euler steps into the recurrence: where does it end?",
    replaces="largest_state",
)
def both_alike(a, low, high, hold):
    return 1 / a


@mistake(
    "The state still decays by exp(-a step) < 1 at every token, so with steps up to `high` it stays finite.",
    replaces="largest_state",
)
def without_a_bound(a, low, high, hold):
    return 1 / a if hold == "exact" else math.inf


@mistake(
    "The largest step leads to high / (1 - exp(-a high)): the share that is kept has the rate a in it.",
    replaces="largest_state",
)
def share_without_the_rate(a, low, high, hold):
    return 1 / a if hold == "exact" else high / (1 - math.exp(-high))


@mistake(
    "A token has one step, with which it writes and keeps: under the hold too.", replaces="largest_state"
)
def ends_mixed(a, low, high, hold):
    write = high if hold == "euler" else (1 - math.exp(-a * high)) / a
    return write / (1 - math.exp(-a * low))


@also_right(replaces="step_for")
def by_bisection(keep, a):
    low, high = 0.0, 1e6
    for _ in range(200):
        step = (low + high) / 2
        low, high = (step, high) if math.exp(-a * step) > keep else (low, step)
    return low


@mistake(
    "That is where the state is after some thousand tokens. With small steps it has not arrived: solve for where it ends.",
    replaces="largest_state",
)
def after_some_tokens(a, low, high, hold):
    steps = [low + (high - low) * n / 20 for n in range(21)]
    S = 0.0
    for _ in range(3000):  # the best of many steps, token after token
        writes = [step if hold == "euler" else (1 - math.exp(-a * step)) / a for step in steps]
        S = max(math.exp(-a * step) * S + w for step, w in zip(steps, writes))
    return S


@mistake(
    "With the exact hold that is what one token writes into an empty state. What earlier ones have left adds to it.",
    replaces="largest_state",
)
def one_token_of_the_exact_hold(a, low, high, hold):
    return -math.expm1(-a * high) / a if hold == "exact" else high / -math.expm1(-a * high)


@also_right(replaces="largest_state")
def by_the_share_kept(a, low, high, hold):
    keep = math.exp(-a * high)
    return (1 if hold == "exact" else -math.log(keep) / (1 - keep)) / a
