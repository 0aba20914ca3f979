"""Known answers to question 2: which of four copies?"""

import numpy as np

from linattn_exercises.known_mistakes import also_right, mistake


@mistake(
    "Between another passage and the passage itself two things change: the words, and their order. Compare with shuffled."
)
def against_another_passage(other, shuffled, second):
    return 1 - second.mean(1) / other.mean(1)


@mistake("That is the difference in nats. Asked is the share of the loss that goes away.")
def difference(other, shuffled, second):
    return shuffled.mean(1) - second.mean(1)


@mistake("That is what is left. Asked is what goes away.")
def what_is_left(other, shuffled, second):
    return second.mean(1) / shuffled.mean(1)


@mistake(
    "That is the mean of shares. Bytes that cost nearly nothing have shares that are noise: divide the means."
)
def mean_of_shares(other, shuffled, second):
    return (1 - second / shuffled).mean(1)


@mistake("That divides by the loss after another passage. The share is one of the loss with the words known.")
def divided_by_other(other, shuffled, second):
    return (shuffled.mean(1) - second.mean(1)) / other.mean(1)


@mistake("That divides by the loss after copying.")
def divided_by_the_end(other, shuffled, second):
    return shuffled.mean(1) / second.mean(1) - 1


@mistake("That averages over models. Asked is an entry for each of the four.")
def over_models(other, shuffled, second):
    return 1 - second.mean(0) / shuffled.mean(0)


@mistake("That is the median byte. Take the means.")
def medians(other, shuffled, second):
    return 1 - np.median(second, 1) / np.median(shuffled, 1)


@mistake(
    "Between another passage and the passage itself the order becomes known, too. Stop at shuffled.",
    "adapting",
)
def to_the_end(other, shuffled, second):
    return 1 - second.mean(1) / other.mean(1)


@mistake("That is what knowing the words saves, in nats. Asked is its share of the loss.", "adapting")
def difference_of_words(other, shuffled, second):
    return other.mean(1) - shuffled.mean(1)


@mistake("That is what copying saves.", "adapting")
def what_copying_saves(other, shuffled, second):
    return 1 - second.mean(1) / shuffled.mean(1)


@mistake("That is the mean of shares. Divide the means.", "adapting")
def mean_of_shares_of_words(other, shuffled, second):
    return (1 - shuffled / other).mean(1)


@mistake("That has the wrong sign: a loss that falls is a gain.", "adapting")
def sign(other, shuffled, second):
    return shuffled.mean(1) / other.mean(1) - 1


@mistake(
    "That is the model with the lowest loss at the second reading. It may have had the lowest before.",
    "which",
)
def lowest(other, shuffled, second):
    return int(second.mean(1).argmin())


@mistake(
    "That is the model that gains most by the passage as a whole; knowing the words may be most of it.",
    "which",
)
def largest_gain(other, shuffled, second):
    return int((1 - second.mean(1) / other.mean(1)).argmax())


@mistake(
    "That is the model that saves most nats. One with a low loss has few to save: compare the shares.",
    "which",
)
def most_nats(other, shuffled, second):
    return int((shuffled.mean(1) - second.mean(1)).argmax())


@mistake("That counts from 1. The first model has the index 0.", "which")
def from_one(other, shuffled, second):
    return int((1 - second.mean(1) / shuffled.mean(1)).argmax()) + 1


@mistake("That is the model that copies least.", "which")
def copies_least(other, shuffled, second):
    return int((second.mean(1) / shuffled.mean(1)).argmax())


@mistake(
    "That compares the beginning of the passage with its end, and all models find some parts harder.", "which"
)
def beginning_against_end(other, shuffled, second):
    half = second.shape[1] // 2
    return int((second[:, half:].mean(1) / second[:, :half].mean(1)).argmin())


@also_right("copying")
def by_sums(other, shuffled, second):
    return np.array([(b - c).sum() / b.sum() for b, c in zip(shuffled, second, strict=True)])


@also_right("which")
def by_ratio(other, shuffled, second):
    return int(np.argmin(second.sum(1) / shuffled.sum(1)))
