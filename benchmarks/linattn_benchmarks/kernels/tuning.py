"""Compiling beforehand, and what FLA remembers of its tuning.

FLA tries many configurations of each kernel in its first call. Two habits of it matter here. It can keep its
choice on disk (``FLA_CACHE_RESULTS``, on by default); a choice made while other processes used the GPU would
slow it down for good, so warm-up keeps compiled kernels only. And its keys leave things out: B and T, so
that what suits (8, 2048) is taken over for (1, 32768), see NOTES.md for what that costs; and for
``fused_chunk_simple_gla`` the shape of the decay. So unless told otherwise a timed run keeps nothing on disk
and forgets before each row: everything is tuned for itself, on an idle GPU.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from linattn_benchmarks.kernels.cases import Case, inputs
from linattn_benchmarks.kernels.checking import checked
from linattn_benchmarks.kernels.rows import candidates_of, prepared, reason
from linattn_benchmarks.kernels.timing import Clock


def keep_choices(keep: bool) -> None:
    """Whether FLA's choices go to disk; said before FLA is imported."""
    os.environ["FLA_CACHE_RESULTS"] = "1" if keep else "0"
    os.environ["TRITON_CACHE_AUTOTUNING"] = "1" if keep else "0"


def forget_choices() -> None:
    """What Triton's autotuners chose in this process; compiled kernels stay."""
    from triton.runtime.autotuner import Autotuner

    for thing in gc.get_objects():
        if issubclass(type(thing), Autotuner):
            thing.cache.clear()


def warm_here(cases: Sequence[Case], clock: Clock, fla: bool) -> None:
    """Compile whatever the timed run of these cases will call."""
    for case in cases:
        x = inputs(case, clock.device)
        for candidate in candidates_of(case, fla):
            try:
                prepared(candidate, x, case.mode)()
                if candidate.name != "sdpa":
                    checked(candidate, case, clock.device)
            except Exception as error:  # the timed run will say so in its row
                print(f"{case.label}, {candidate.name}: {reason(error)}", flush=True)
            clock.settle()


def warm_side_by_side(ops: Sequence[str], options: Sequence[str], jobs: int) -> bool:
    """A process for each op, ``jobs`` at a time; whether all came to their end."""

    def run(op: str) -> bool:
        command = [sys.executable, "-m", "benchmarks", "--warm", "--ops", op, *options]
        process = subprocess.run(command, capture_output=True, text=True)
        crash = process.stderr[-500:] if process.returncode else ""
        print(f"{op}: {'failed' if process.returncode else 'compiled'}\n{process.stdout}{crash}", flush=True)
        return not process.returncode

    with ThreadPoolExecutor(jobs) as pool:
        return all(list(pool.map(run, ops)))
