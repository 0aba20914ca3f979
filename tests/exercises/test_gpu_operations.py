"""What the grader lets a kernel compute with is what a GPU computes.

The GPU is asked where there is one, by ``make test-gpu``.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.exercises.gpu_operations import find_differences

# These move values or lead the way; that they do so is seen by what the kernels of the exercises give.
DIALECTS = ("arith", "math")
# made of the bounds of loops, which stay as they are
UNSEEN = {"arith.bitcast"}


def ask(by: str, folder: Path) -> dict[str, np.ndarray]:
    """Return what the grader, or a GPU, makes of all expressions."""
    path = folder / f"{by}.npz"
    environment = {**os.environ, "TRITON_INTERPRET": "0" if by == "gpu" else "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.exercises.gpu_operations", str(path), by]
    subprocess.run(command, env=environment, check=True)
    with np.load(path) as found:
        return dict(found)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """Return what the grader makes of all expressions."""
    return ask("grader", tmp_path_factory.mktemp("graded"))


def test_all_operations_that_are_known_are_asked_for(graded: dict[str, np.ndarray]) -> None:
    from linattn_exercises import kernel_front

    known = {name for name in kernel_front.KNOWN if name.startswith(DIALECTS)}
    assert known - set(graded["__operations__"].tolist()) == UNSEEN


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="asks a GPU")
def test_a_gpu_computes_what_the_grader_does(graded: dict[str, np.ndarray], tmp_path: Path) -> None:
    of_gpu = ask("gpu", tmp_path)
    of_grader = {name: graded[name] for name in of_gpu}
    assert find_differences(of_grader, of_gpu) == {}
