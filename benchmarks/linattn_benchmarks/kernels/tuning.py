"""Decide what FLA remembers of its tuning.

FLA tries many configurations of each kernel in its first call. Two habits of it matter here. It can keep its
choice on disk (``FLA_CACHE_RESULTS``, on by default); a choice made while other processes used the GPU would
slow it down for good. And its keys leave things out: B and T, so that what suits (8, 2048) is taken over for
(1, 32768), see kernels/NOTES.md for what that costs; and for ``fused_chunk_simple_gla`` the shape of the
decay. So a timed run keeps nothing on disk and forgets before each row: everything is tuned for itself, on an
idle GPU. ``FLA_CACHE_RESULTS=1`` in the environment keeps choices all the same, for a quick look.
"""

import gc
import os
from collections.abc import Callable, Sequence
from typing import Any


def choose_where_tuning_is_kept(warm: bool = False) -> None:
    """Tell FLA and Triton, before they are imported, whether choices go to disk; never while warming up."""
    if warm:
        os.environ["FLA_CACHE_RESULTS"] = "0"
    keep = os.environ.setdefault("FLA_CACHE_RESULTS", "0")
    os.environ["TRITON_CACHE_AUTOTUNING"] = keep


def time_nothing() -> None:
    """Let every autotuner of this process call each configuration once, so that it is compiled, untimed."""
    from triton.runtime.autotuner import Autotuner

    def call_once(call: Callable[[], Any], quantiles: Sequence[float]) -> list[float]:
        call()
        return [0.0] * len(quantiles)

    Autotuner.do_bench = property(lambda tuner: call_once)


def is_kept() -> bool:
    """Return whether choices go to disk."""
    return os.environ.get("FLA_CACHE_RESULTS") == "1"


def forget_choices() -> None:
    """Forget what Triton's autotuners chose in this process; compiled kernels stay."""
    from triton.runtime.autotuner import Autotuner

    for thing in gc.get_objects():
        if issubclass(type(thing), Autotuner):
            thing.cache.clear()
