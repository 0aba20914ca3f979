"""The test run is stricter than real life: annotations enforced, warnings errors, fresh memory NaN."""

import os
import random

# read when linattn_ref is imported, so before everything else; make test-gpu sets 0: beartype may be missing
os.environ.setdefault("LINATTN_CHECK_SHAPES", "1")

import numpy as np
import pytest
import torch

from tests.support.poison import poisoned_allocators

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, which torch leaves for later

POISONED_FOLDERS = {"ops", "kernels"}

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # the workers are the parallelism


@pytest.fixture(autouse=True)
def _fixed_seeds() -> None:
    """Every test starts from the same global generators, whatever ran before it."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that nobody has written holds NaN."""
    for owner, name, poisoned in poisoned_allocators():
        monkeypatch.setattr(owner, name, poisoned)


@pytest.fixture(autouse=True)
def _poisoned_for_ops(request: pytest.FixtureRequest) -> None:
    if request.node.path.parent.name in POISONED_FOLDERS:
        request.getfixturevalue("poisoned_memory")
