"""Write passages of a text into it again: a text that rewards looking up what was read a moment ago.

What is written over is lost, so the text stays as long as it was, and all of it is text of the same kind.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

STRETCH = 1024  # bytes in which the share is kept


class Passages(NamedTuple):
    """Say which passages are copied, in bytes.

    Args:
        shortest, longest: lengths of a passage; default 32 and 128.
        reach: from the beginning of a passage to that of its copy, at most; default 640, so that most windows
            of 1,024 with a copy have both.
    """

    shortest: int = 32
    longest: int = 128
    reach: int = 640


SHORT = Passages()
LONG_NEAR, LONG_FAR = Passages(64, 256, reach=320), Passages(64, 256)


class Repeat(NamedTuple):
    """Say that the ``length`` bytes from ``source`` on stand at ``at`` again."""

    source: int
    at: int
    length: int


def insert_repeats(
    text: Tensor, share: float, generator: torch.Generator, passages: Passages = SHORT
) -> Tensor:
    """Write passages of a text over what comes soon after them.

    Args:
        text: uint8 [N].
        share: of the bytes that are written over, up to a half.
        generator: on the CPU.
        passages: which ones; default ``SHORT``.

    Returns:
        A text of the same length, uint8.

    Raises:
        ValueError: a share, or a length, out of range.

    Example:
        >>> text = torch.randint(256, (4096,), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
        >>> mixed = insert_repeats(text, 0.25, torch.Generator().manual_seed(0))
        >>> len(mixed), round((mixed != text).float().mean().item(), 1)
        (4096, 0.2)
    """
    data = bytearray(text.numpy().tobytes())
    for source, at, length in draw_repeats(len(data), share, generator, passages):
        data[at : at + length] = data[source : source + length]
    return torch.frombuffer(data, dtype=torch.uint8)


def draw_repeats(
    n_bytes: int, share: float, generator: torch.Generator, passages: Passages = SHORT
) -> Iterator[Repeat]:
    """Yield the copies for a text, from its beginning to its end; no two overlap, so none is lost.

    Each stretch but the first has its share, give or take a passage that the next makes up for. A passage
    stands wholly before its copy, at any distance up to their reach; it may hold a copy itself.

    Args:
        n_bytes: of the text.
        share: of the bytes that are written over, up to a half.
        generator: on the CPU.
        passages: which ones; default ``SHORT``.

    Raises:
        ValueError: a share, or a length, out of range.
    """
    if not 0 < share <= 0.5:
        raise ValueError(f"share: got {share}, expected a number above 0, up to 0.5")
    shortest, longest, reach = passages
    if not 0 < shortest <= longest <= min(reach, STRETCH // 2) or reach > STRETCH:
        rising = f"lengths that rise, up to {STRETCH // 2}, and a reach no shorter, up to {STRETCH}"
        raise ValueError(f"passages: got {tuple(passages)}, expected {rising}")
    owed = 0.0
    for start in range(STRETCH, n_bytes - STRETCH + 1, STRETCH):
        owed += share * STRETCH
        lengths = []
        while owed > 0:
            lengths.append(int(torch.randint(shortest, longest + 1, (), generator=generator)))
            owed -= lengths[-1]
        yield from _place(start, lengths, reach, generator)


def _place(start: int, lengths: list[int], reach: int, generator: torch.Generator) -> Iterator[Repeat]:
    """Yield copies of these lengths at random places of a stretch, and from where, in order."""
    free = STRETCH - sum(lengths)
    gaps, distances = torch.rand(2, len(lengths), generator=generator, dtype=torch.float64)
    used = 0
    for gap, distance, length in zip(gaps.sort().values.tolist(), distances.tolist(), lengths, strict=True):
        at = start + used + int(gap * (free + 1))
        yield Repeat(at - length - int(distance * (reach - length + 1)), at, length)
        used += length
