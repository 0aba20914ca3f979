"""What holds in every test: annotations are enforced, seeds fixed; in some, fresh memory is NaN.

That warnings are errors stands in ``pyproject.toml``, as do the marks.
"""

import os
import random
from collections.abc import Iterator

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
    """Seed the global generators alike for every test, whatever ran before it."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def generator() -> torch.Generator:
    """Return a generator of the test's own, on the CPU, with seed 0."""
    return torch.Generator().manual_seed(0)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let torch use one thread, so that every process adds in the same order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill memory that nobody has written with NaN."""
    for owner, name, poisoned in poisoned_allocators():
        monkeypatch.setattr(owner, name, poisoned)


@pytest.fixture(autouse=True)
def _poisoned_for_ops(request: pytest.FixtureRequest) -> None:
    """Run the tests of ops and kernels on poisoned memory."""
    if request.node.path.parent.name in POISONED_FOLDERS:
        request.getfixturevalue("poisoned_memory")
