"""The test run is stricter than real life: annotations enforced, warnings errors, fresh memory NaN."""

import functools
import os
import random

os.environ["LINATTN_CHECK_SHAPES"] = "1"  # read when linattn_ref is imported, so before everything else

import numpy as np
import pytest
import torch

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
    """Memory that nobody has written holds NaN, so that reading it cannot go unnoticed."""
    for owner, name in (
        (torch, "empty"),
        (torch, "empty_like"),
        (torch, "empty_strided"),
        (torch.Tensor, "new_empty"),
    ):
        monkeypatch.setattr(owner, name, _poisoned(getattr(owner, name)))


@pytest.fixture(autouse=True)
def _poisoned_for_ops(request: pytest.FixtureRequest) -> None:
    if request.node.path.parent.name in POISONED_FOLDERS:
        request.getfixturevalue("poisoned_memory")


def _poisoned(allocate):
    @functools.wraps(allocate)
    def poisoned(*args, **kwargs):
        x = allocate(*args, **kwargs)
        with torch.no_grad():
            return x.fill_(torch.nan) if x.is_floating_point() or x.is_complex() else x

    return poisoned
