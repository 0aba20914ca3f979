"""Make small tasks that one mechanism solves: a gate, a selection, a copy, an erasure.

Inputs and targets are those of ``recall``: int64 [B, T], with ``IGNORED`` where nothing is asked for. Token 0
is a filler, 1 a mark of the task, and all others are what is to be remembered.
"""

import torch

from linattn_ref.ops.validation import require
from linattn_ref.training.tasks.recall import IGNORED, Recall

FILLER, MARK, FIRST = 0, 1, 2  # FIRST is the first token to remember


def reset_on_mark(
    batch_size: int,
    seq_len: int,
    generator: torch.Generator,
    *,
    vocab_size: int = 16,
    every: float = 16.0,
    mark_every: float = 32.0,
) -> Recall:
    """Draw a stream in which the latest value counts until a mark empties the memory.

    Each place holds a value with probability 1/every, a mark with 1/mark_every, else a filler. At each place
    the target is the latest value at or before it; FILLER if there is none, or if a mark has come since.

    Args:
        batch_size: sequences, B.
        seq_len: tokens of each, T.
        generator: on the CPU.
        vocab_size: tokens, of which ``vocab_size - 2`` are values; default 16.
        every: mean distance of values; default 16.
        mark_every: mean distance of marks; default 32.

    Returns:
        inputs and targets, int64 [B, T]; every place is asked for.

    Raises:
        ValueError: a size below 1, or no room for a value.

    Source:
        ours; an MLP can tell the latest of two events by how far their traces have decayed (chapter 3).

    Example:
        >>> inputs, targets = reset_on_mark(1, 8, torch.Generator().manual_seed(1), every=3, mark_every=4)
        >>> inputs.shape, targets.shape
        (torch.Size([1, 8]), torch.Size([1, 8]))
    """
    _check(batch_size, seq_len, vocab_size, FIRST + 1)
    require(every > 1 and mark_every > 1, "every, mark_every", f"{every}, {mark_every}", "numbers above 1")
    draw = torch.rand(batch_size, seq_len, generator=generator)
    values = torch.randint(FIRST, vocab_size, (batch_size, seq_len), generator=generator)
    inputs = torch.where(draw < 1 / every, values, FILLER)
    inputs[(draw >= 1 / every) & (draw < 1 / every + 1 / mark_every)] = MARK
    places = torch.arange(seq_len).expand(batch_size, -1)
    latest = torch.where(inputs != FILLER, places, -1).cummax(1).values  # of a value or a mark; -1 before any
    found = inputs.gather(1, latest.clamp(min=0))
    return Recall(inputs, torch.where((latest >= 0) & (found != MARK), found, FILLER))


def count_since_mark(
    batch_size: int,
    seq_len: int,
    generator: torch.Generator,
    *,
    classes: int = 16,
    every: float = 4.0,
    mark_every: float = 40.0,
) -> Recall:
    """Draw a stream of events and marks; at each place the number of events since the last mark is asked for.

    Each place holds an event (token 2) with probability 1/every, a mark with 1/mark_every, else a filler.

    Args:
        batch_size: sequences, B.
        seq_len: tokens of each, T.
        generator: on the CPU.
        classes: targets are 0 to ``classes - 1``, the last of which stands for all larger counts; default 16.
        every: mean distance of events; default 4.
        mark_every: mean distance of marks; default 40.

    Returns:
        inputs and targets, int64 [B, T]; every place is asked for.

    Raises:
        ValueError: a size or ``classes`` below 1, or a distance below 1.

    Source:
        ours; a count is what a fixed decay cannot begin anew (chapter 3).

    Example:
        >>> inputs, targets = count_since_mark(1, 8, torch.Generator().manual_seed(3), mark_every=5, every=2)
        >>> inputs.shape, targets.shape
        (torch.Size([1, 8]), torch.Size([1, 8]))
    """
    _check(batch_size, seq_len, classes, 1)
    require(every > 1 and mark_every > 1, "every, mark_every", f"{every}, {mark_every}", "numbers above 1")
    draw = torch.rand(batch_size, seq_len, generator=generator)
    inputs = torch.where(draw < 1 / every, FIRST, FILLER)
    inputs[(draw >= 1 / every) & (draw < 1 / every + 1 / mark_every)] = MARK
    count = (inputs == FIRST).cumsum(1)
    before = torch.where(inputs == MARK, count, 0).cummax(1).values  # events before the last mark
    return Recall(inputs, (count - before).clamp(max=classes - 1))


def selective_copy(
    batch_size: int,
    seq_len: int,
    n_tokens: int,
    generator: torch.Generator,
    *,
    vocab_size: int = 16,
    fixed: bool = False,
) -> Recall:
    """Draw tokens among fillers, which are to be said again in their order at the end.

    The last ``n_tokens`` places hold marks; at the i-th the target is the i-th token. The tokens stand at
    random places before them, or, if fixed, side by side at the beginning.

    Args:
        batch_size: sequences, B.
        seq_len: tokens of each, marks included, T.
        n_tokens: tokens to copy.
        generator: on the CPU.
        vocab_size: tokens, of which ``vocab_size - 2`` are copied; default 16.
        fixed: whether every sequence has its tokens at the same places; then the delay is always the same.

    Returns:
        inputs and targets, int64 [B, T].

    Raises:
        ValueError: a size below 1, no room for the tokens, or none for their vocabulary.

    Source:
        Gu and Dao 2023, arXiv 2312.00752, for selective copying.

    Example:
        >>> selective_copy(1, 6, 2, torch.Generator().manual_seed(0), fixed=True)[0][0, 2:].tolist()
        [0, 0, 1, 1]
    """
    _check(batch_size, seq_len, vocab_size, FIRST + 1)
    room = seq_len - n_tokens
    require(1 <= n_tokens <= room, "n_tokens", f"{n_tokens}", f"1 to {seq_len // 2} for {seq_len} places")
    order = torch.rand(batch_size, room, generator=generator).argsort(1)[:, :n_tokens].sort(1).values
    places = torch.arange(n_tokens).expand(batch_size, -1) if fixed else order
    tokens = torch.randint(FIRST, vocab_size, (batch_size, n_tokens), generator=generator)
    inputs = torch.full((batch_size, seq_len), FILLER).scatter_(1, places, tokens)
    inputs[:, room:] = MARK
    targets = torch.full_like(inputs, IGNORED)
    targets[:, room:] = tokens
    return Recall(inputs, targets)


def induction_heads(
    batch_size: int, seq_len: int, generator: torch.Generator, *, vocab_size: int = 16
) -> Recall:
    """Draw random tokens in which a mark stands twice; at the second, what followed the first is asked for.

    Args:
        batch_size: sequences, B.
        seq_len: tokens of each, T; the last is the second mark.
        generator: on the CPU.
        vocab_size: tokens, of which ``vocab_size - 2`` are not marks; default 16.

    Returns:
        inputs and targets, int64 [B, T]; the last place alone is asked for.

    Raises:
        ValueError: a size below 1, fewer than 4 places, or no room for a value.

    Source:
        Gu and Dao 2023, arXiv 2312.00752, whose vocabulary of 16 is the default here.

    Example:
        >>> inputs, targets = induction_heads(1, 8, torch.Generator().manual_seed(0))
        >>> first = inputs[0].tolist().index(1)
        >>> bool(targets[0, -1] == inputs[0, first + 1])
        True
    """
    _check(batch_size, seq_len, vocab_size, FIRST + 1)
    require(seq_len >= 4, "seq_len", f"{seq_len}", "at least 4")
    inputs = torch.randint(FIRST, vocab_size, (batch_size, seq_len), generator=generator)
    first = torch.randint(seq_len - 2, (batch_size, 1), generator=generator)
    inputs.scatter_(1, first, MARK)
    inputs[:, -1] = MARK
    targets = torch.full_like(inputs, IGNORED)
    targets[:, -1:] = inputs.gather(1, first + 1)
    return Recall(inputs, targets)


def parity(batch_size: int, seq_len: int, generator: torch.Generator) -> Recall:
    """Draw bits; at each place the parity of all bits so far is asked for.

    Args:
        batch_size: sequences, B.
        seq_len: bits of each, T.
        generator: on the CPU.

    Returns:
        inputs and targets, int64 [B, T], of 0 and 1.

    Raises:
        ValueError: a size below 1.

    Source:
        ours; a state that can change its sign solves it.

    Example:
        >>> inputs, targets = parity(1, 5, torch.Generator().manual_seed(0))
        >>> bool((inputs.cumsum(1) % 2 == targets).all())
        True
    """
    _check(batch_size, seq_len, 2, 2)
    inputs = torch.randint(2, (batch_size, seq_len), generator=generator)
    return Recall(inputs, inputs.cumsum(1) % 2)


def _check(batch_size: int, seq_len: int, vocab_size: int, least: int) -> None:
    """Refuse sizes below 1, and a vocabulary without a token to remember."""
    require(min(batch_size, seq_len) >= 1, "batch_size, seq_len", f"{batch_size}, {seq_len}", "at least 1")
    require(vocab_size >= least, "vocab_size", f"{vocab_size}", f"at least {least}")
