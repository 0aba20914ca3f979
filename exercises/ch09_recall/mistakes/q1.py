"""Known answers to question 1: where a deficit sits."""

import numpy as np

from linattn_exercises.known_mistakes import also_right, mistake


def _repeated(text, n, step=1):
    text = text.tolist()
    seen, found = set(), np.zeros(len(text), bool)
    for t in range(n - 1, len(text)):
        string = tuple(text[t - n + 1 : t + 1])
        found[t] = string in seen
        if (t - n + 1) % step == 0:
            seen.add(string)
    return found


@mistake("That looks the string up after it has been added: then every byte is repeated.")
def added_before_looking(text, n):
    return np.arange(len(text)) >= n - 1


@mistake("Those are strings of n + 1 bytes. The byte itself is the last of the n.")
def one_byte_more(text, n):
    return _repeated(text, n + 1)


@mistake("Those are strings of n - 1 bytes. The byte itself is the last of the n.")
def one_byte_less(text, n):
    return _repeated(text, n - 1)


@mistake("That marks bytes whose *following* byte completes a string: an entry too early.")
def one_too_early(text, n):
    return np.append(_repeated(text, n)[1:], False)


@mistake("That marks the first byte of a string, not the one that completes it.")
def marks_the_beginning(text, n):
    found = _repeated(text, n)
    return np.append(found[n - 1 :], np.zeros(min(n - 1, len(text)), bool))


@mistake("The two strings may overlap: in aaaa, n = 3, the last byte is repeated.")
def without_overlap(text, n):
    waiting: list[object] = []
    text, seen, found = text.tolist(), set(), np.zeros(len(text), bool)
    for t in range(n - 1, len(text)):
        string = tuple(text[t - n + 1 : t + 1])
        if len(waiting) >= n:
            seen.add(waiting.pop(0))
        found[t] = string in seen
        waiting.append(string)
    return found


@mistake("That marks all bytes of the later string. Asked is whether a byte *completes* one.")
def whole_string(text, n):
    found = _repeated(text, n)
    for t in np.flatnonzero(found):
        found[t - n + 1 : t + 1] = True
    return found


@mistake("That marks strings that occur anywhere else, later too. Only earlier ones count.")
def later_too(text, n):
    return _repeated(text, n) | _repeated(text[::-1], n)[::-1].take(np.arange(len(text)) - n + 1, mode="clip")


@mistake("Numbers written one after another do not tell 1, 12 from 11, 2: both are 112.")
def digits_joined(text, n):
    seen, found = set(), np.zeros(len(text), bool)
    for t in range(n - 1, len(text)):
        string = "".join(map(str, text[t - n + 1 : t + 1].tolist()))
        found[t] = string in seen
        seen.add(string)
    return found


@mistake("Those are strings in blocks: a copy begins anywhere.")
def blocks(text, n):
    return _repeated(text, n, n)


def _after(text, n):
    after: dict[object, set[int]] = {}
    text = text.tolist()
    for t in range(n - 1, len(text)):
        known = after.setdefault(tuple(text[t - n + 1 : t]), set())
        yield t, known
        known.add(text[t])


@mistake("That marks every byte that is not repeated. What stood before it must have occurred.", "misleading")
def all_that_is_not_repeated(text, n):
    found = ~_repeated(text, n)
    found[: n - 1] = False
    return found


@mistake(
    "That marks all bytes before which something known stands, those that go on as before, too.", "misleading"
)
def known_beginnings(text, n):
    found = np.zeros(len(text), bool)
    for t, known in _after(text, n):
        found[t] = bool(known)
    return found


@mistake(
    "That compares with what followed the last time. A byte that followed at any earlier time is not misleading.",
    "misleading",
)
def last_time_only(text, n):
    last: dict[object, int] = {}
    found = np.zeros(len(text), bool)
    for t in range(n - 1, len(text)):
        before = tuple(text[t - n + 1 : t])
        found[t] = last.get(before, text[t]) != text[t]
        last[before] = text[t]
    return found


@mistake("Look at the n - 1 bytes before, not at n.", "misleading")
def n_bytes_before(text, n):
    found = np.zeros(len(text), bool)
    for t, known in _after(text, n + 1):
        found[t] = bool(known) and text[t] not in known
    return found


@mistake(
    "That compares with what followed the first time. Any earlier time counts.",
    "misleading",
)
def first_time_only(text, n):
    first: dict[object, int] = {}
    found = np.zeros(len(text), bool)
    for t in range(n - 1, len(text)):
        found[t] = first.setdefault(tuple(text[t - n + 1 : t]), text[t]) != text[t]
    return found


@mistake("That is the difference of the means. Sum: the two kinds of bytes are not equally many.", "share")
def of_means(mine, theirs, where):
    more = mine - theirs
    a, b = (more[part].mean() if part.any() else 0.0 for part in (where, ~where))
    return float(a / (a + b))


@mistake("That is the share of the bytes.", "share")
def share_of_bytes(mine, theirs, where):
    return float(where.mean())


@mistake("That is the share of the first model's loss. Take that of the difference.", "share")
def share_of_loss(mine, theirs, where):
    return float(mine[where].sum() / mine.sum())


@mistake("That is the share on the other bytes.", "share")
def the_others(mine, theirs, where):
    more = mine - theirs
    return float(more[~where].sum() / more.sum())


@mistake("That drops the bytes on which the first model is better. They count, with their sign.", "share")
def without_gains(mine, theirs, where):
    more = np.maximum(mine - theirs, 0)
    return float(more[where].sum() / more.sum())


@mistake(
    "That is cut off at 0 and 1. Where the rest has the other sign, a share is below 0 or above 1.", "share"
)
def cut_off(mine, theirs, where):
    more = mine - theirs
    return float(np.clip(more[where].sum() / more.sum(), 0, 1))


@mistake(
    "Divide by the whole with its sign: a model that is better all over gains on those bytes, too.", "share"
)
def divided_by_the_size(mine, theirs, where):
    more = mine - theirs
    return float(more[where].sum() / abs(more.sum()))


@mistake("That is the difference on those bytes. Divide by the whole.", "share")
def not_divided(mine, theirs, where):
    return float((mine - theirs)[where].sum())


@also_right("repeated")
def by_bytes(text, n):
    data, seen, found = bytes(text.tolist()), set(), []
    for t in range(len(data)):
        string = data[max(0, t - n + 1) : t + 1]
        found.append(len(string) == n and string in seen)
        seen.add(string)
    return found


@also_right("misleading")
def by_pairs(text, n):
    data, starts, strings, found = bytes(text.tolist()), set(), set(), []
    for t in range(len(data)):
        start, string = data[max(0, t - n + 1) : t], data[max(0, t - n + 1) : t + 1]
        found.append(len(string) == n and start in starts and string not in strings)
        if len(string) == n:
            starts.add(start)
            strings.add(string)
    return found


@mistake(
    "What stood before may begin in itself: in a run of one byte the last n - 1 have just ended one place earlier.",
    replaces="misleading",
)
def earlier_part_without_overlap(text, n):
    text = bytes(text.tolist())
    found = np.zeros(len(text), bool)
    for t in range(n - 1, len(text)):
        start, string = text[t - n + 1 : t], text[t - n + 1 : t + 1]
        found[t] = start in text[: t - n + 1] and string not in text[:t]
    return found
