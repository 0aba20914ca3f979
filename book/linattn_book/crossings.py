"""Say where one cost overtakes another.

Not in ``measure``, on which every benchmark stands: a change here makes no measurement older.
"""

import math
from collections.abc import Mapping

import numpy as np


def describe_crossing(one: Mapping[int, float], other: Mapping[int, float]) -> str:
    """Return where ``one`` becomes the larger of two, "near" a number of tokens or "below" the first.

    Args:
        one, other: tokens, rising -> a number above 0; ``other`` has all tokens of ``one``. The crossing is
            read off straight lines between points of log(one / other) against log(tokens).

    Raises:
        ValueError: ``one`` is not the larger anywhere.

    Example:
        >>> describe_crossing({128: 1.0, 512: 4.0}, {128: 2.0, 512: 2.0})
        'near 256'
    """
    lengths = [*one]
    gap = [math.log(one[n] / other[n]) for n in lengths]
    if gap[0] > 0:
        return f"below {lengths[0]}"
    if gap[-1] <= 0:
        raise ValueError(f"one: got {one}, expected numbers that exceed those of other, {other}, somewhere")
    return f"near {math.exp(np.interp(0, gap, np.log(lengths))):,.0f}"
