"""A conftest for notebooks that are run as tests: start a kernel again if it does not answer.

Two kernels that are started at once may be given the same port, and then one of them never answers.
``verify`` copies this file beside the notebooks.
"""

from collections.abc import Callable
from typing import Any

import nbval.kernel


def try_twice(start: Callable[..., Any]) -> Callable[..., Any]:
    """Return `start` with a second attempt after a RuntimeError, nbval's word for a silent kernel."""

    def start_or_start_again(*arguments: Any, **options: Any) -> Any:
        try:
            return start(*arguments, **options)
        except RuntimeError:
            return start(*arguments, **options)

    return start_or_start_again


def pytest_configure() -> None:
    """Give pytest the patient start."""
    nbval.kernel.start_new_kernel = try_twice(nbval.kernel.start_new_kernel)
