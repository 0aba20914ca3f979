"""Known answers to question 3: what a right digit costs."""

import numpy as np
import torch

from linattn_exercises.known_mistakes import also_right, mistake


def _log_sum(x):
    top = x.max(-1, keepdims=True)
    return np.log(np.exp(x - top).sum(-1)) + top[..., 0]


def _parts(logits, digits, first=48):
    ten = logits[..., first : first + 10]
    right = np.take_along_axis(ten, digits[..., None], -1)[..., 0]
    return _log_sum(logits) - _log_sum(ten), _log_sum(ten) - right


@mistake("Exponentials of logits near 2,000 are infinite. Subtract the largest logit before.")
def overflows(logits, digits):
    with np.errstate(all="ignore"):
        p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        ten = p[..., 48:58].sum(-1)
        right = np.take_along_axis(p, 48 + digits[..., None], -1)[..., 0]
        return float(-np.log(ten).mean()), float(-np.log(right / ten).mean())


@mistake(
    "A form of -log p(digit) where p(digit) is rounded to 0 is infinite. Subtract logarithms of sums instead."
)
def underflows(logits, digits):
    p = np.exp(logits - _log_sum(logits)[..., None])
    with np.errstate(all="ignore"):
        return float(-np.log(p[..., 48:58].sum(-1)).mean()), float(_parts(logits, digits)[1].mean())


@mistake(
    "That subtracts the largest logit of all. Where those of another digit are lower by 1,000, all their "
    "exponentials are 0: subtract the largest of each digit's own."
)
def one_maximum_for_all(logits, digits):
    with np.errstate(all="ignore"):
        ten = logits[..., 48:58]
        log_sums = [np.log(np.exp(x - x.max()).sum(-1)) + x.max() for x in (logits, ten)]
        right = np.take_along_axis(ten, digits[..., None], -1)[..., 0]
        return float((log_sums[0] - log_sums[1]).mean()), float((log_sums[1] - right).mean())


@mistake("The second part is that among digits: the whole loss without the form.")
def whole_loss_as_choice(logits, digits):
    form, choice = _parts(logits, digits)
    return float(form.mean()), float((form + choice).mean())


@mistake("That is in bits. Take natural logarithms.")
def in_bits(logits, digits):
    form, choice = _parts(logits, digits)
    return float(form.mean() / np.log(2)), float(choice.mean() / np.log(2))


@mistake("Those are the first ten bytes. The digit d is the byte 48 + d.")
def first_ten_bytes(logits, digits):
    form, choice = _parts(logits, digits, 0)
    return float(form.mean()), float(choice.mean())


@mistake("That sums over the six digits of a needle. Asked are means over all digits.")
def sums_of_six(logits, digits):
    form, choice = _parts(logits, digits)
    return float(form.sum(-1).mean()), float(choice.sum(-1).mean())


@mistake("The two parts are the other way round.")
def swapped(logits, digits):
    form, choice = _parts(logits, digits)
    return float(choice.mean()), float(form.mean())


@mistake("That takes the mean probability first, and then its logarithm. Take the mean of the logarithms.")
def log_of_the_mean(logits, digits):
    form, choice = (np.exp(-part) for part in _parts(logits, digits))
    with np.errstate(all="ignore"):
        return float(-np.log(form.mean())), float(-np.log(choice.mean()))


@mistake("That is the share of digits. A needle is found if all six are right.", "found")
def share_of_digits(logits, digits):
    return float((logits.argmax(-1) == 48 + digits).mean())


@mistake("A needle is found if all six digits are right, not any of them.", "found")
def any_digit(logits, digits):
    return float((logits.argmax(-1) == 48 + digits).any(-1).mean())


@mistake("That takes the digits in any order. Each has to be right at its own place.", "found")
def in_any_order(logits, digits):
    return float((np.sort(logits.argmax(-1), -1) == np.sort(48 + digits, -1)).all(-1).mean())


@mistake("The digit d is the byte 48 + d.", "found")
def digit_as_byte(logits, digits):
    return float((logits.argmax(-1) == digits).all(-1).mean())


@mistake("That lets only digits be said, which is the third question.", "found")
def told_already(logits, digits):
    return float((logits[..., 48:58].argmax(-1) == digits).all(-1).mean())


@mistake("That looks at printed bytes alone. Any of the 256 may have the largest logit.", "found")
def printed_bytes_alone(logits, digits):
    return float((32 + logits[..., 32:127].argmax(-1) == 48 + digits).all(-1).mean())


@mistake("That is the number of needles. Divide by how many there are.", "found")
def number_of_needles(logits, digits):
    return float((logits.argmax(-1) == 48 + digits).all(-1).sum())


@mistake(
    "That is the share of digits, told that they are digits. All six of a needle must be right.",
    "found_if_told",
)
def share_of_digits_if_told(logits, digits):
    return float((logits[..., 48:58].argmax(-1) == digits).mean())


@mistake("That lets all bytes be said.", "found_if_told")
def not_told(logits, digits):
    return float((logits.argmax(-1) == 48 + digits).all(-1).mean())


@mistake("Of ten logits the largest is at the place of the digit, not at 48 + digit.", "found_if_told")
def offset_twice(logits, digits):
    return float((logits[..., 48:58].argmax(-1) == 48 + digits).all(-1).mean())


@mistake(
    "The ten are lifted by 2,000, and logits go from -2,000 to 2,000: another byte may be farther above.",
    "found_if_told",
)
def lifted_too_little(logits, digits):
    lifted = logits.copy()
    lifted[..., 48:58] += 2_000
    return float((lifted.argmax(-1) == 48 + digits).all(-1).mean())


@mistake("Those are nine digits: 48 to 57 are ten bytes.", "found_if_told")
def nine_digits(logits, digits):
    return float((logits[..., 48:57].argmax(-1) == digits).all(-1).mean())


@also_right("split_cost")
def by_torch(logits, digits):
    log_p = torch.log_softmax(torch.as_tensor(logits), -1)
    ten = log_p[..., 48:58]
    form = -torch.logsumexp(ten, -1)
    total = -ten.gather(-1, torch.as_tensor(digits)[..., None])[..., 0]
    return form.mean().item(), (total - form).mean().item()


@also_right("found_if_told")
def by_masking(logits, digits):
    masked = np.full(logits.shape, -np.inf)
    masked[..., 48:58] = logits[..., 48:58]
    return float(np.mean([(row == d + 48).all() for row, d in zip(masked.argmax(-1), digits, strict=True)]))
