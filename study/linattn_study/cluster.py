"""Train the trials of a study on a Ray cluster, or on a Ray that is started on this machine.

A trial is a task: Ray decides when and on which machine it runs, and runs it again if its process or its
machine was lost. All machines must see the folder of the study; what a trial had trained is there, so only
its current evaluation is lost.
"""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from linattn_study.launch import read_progress
from linattn_study.trial import Trial

RETRIES = 3  # of a trial whose process was lost


def run(
    trials: Sequence[Trial],
    out: Path,
    train: Callable[[Trial], int],
    n_workers: int,
    report: Callable[[str], None],
    every: float = 10.0,
) -> int:
    """Hand trials to Ray and wait for them, with a line about their progress now and then.

    The Ray that is taken is that of the environment (``RAY_ADDRESS``) or one that runs here already;
    otherwise one is started. A trial takes a GPU, or a core where the cluster has no GPU.

    Args:
        trials: of the study.
        out: the folder of the study, on a disk that all machines see.
        train: trains a trial in its own process, and returns 0 if that did not fail.
        n_workers: trials at a time on a Ray that is started here; 0 leaves it to Ray.
        report: called with each line.
        every: seconds between two looks at the progress; default 10.

    Returns:
        0 if no trial failed, else 1.

    Raises:
        ModuleNotFoundError: Ray is not installed; it comes with ``linattn-ref[cluster]``.
    """
    import ray  # an extra, and slow to import

    started_here = not ray.is_initialized()
    if started_here:
        ray.init(num_cpus=n_workers or None, include_dashboard=False, logging_level=logging.ERROR)
    try:
        resources = ray.cluster_resources()

        @ray.remote(num_cpus=1, num_gpus=int("GPU" in resources), max_retries=RETRIES)
        def task(trial: Trial) -> int:
            return train(trial)

        at_a_time = int(resources.get("GPU", resources["CPU"]))
        left, n_failed, last = {task.remote(trial): trial for trial in trials}, 0, 0.0
        while left:
            done, _ = ray.wait([*left], timeout=every)
            for one in done:
                trial = left.pop(one)
                try:
                    failed = ray.get(one) != 0
                except ray.exceptions.RayError as error:
                    failed = True
                    report(f"{trial.key}: {type(error).__name__}, and no retries left")
                n_failed += failed
            if time.monotonic() - last > every or not left:
                last = time.monotonic()
                report(str(read_progress(trials, out, at_a_time)))
        return 1 if n_failed else 0
    finally:
        if started_here:
            ray.shutdown()
