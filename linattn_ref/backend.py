"""Choose where the ops of a model come from. This is the only place that knows the kernel package."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch

BACKENDS = {"reference": "linattn_ref.ops", "triton": "linattn_kernels"}
_LOADED: dict[str, ModuleType] = {}


def backend_for(device: torch.device) -> str:
    """Return the backend to use on a device: kernels where they run, else the reference.

    Kernels run from compute capability 8.0 on, so not on the T4 of a free notebook.

    Args:
        device: where the model will be.

    Returns:
        "triton" or "reference", for ``ModelConfig.backend``.

    Example:
        >>> backend_for(torch.device("cpu"))
        'reference'
    """
    kernels = device.type == "cuda" and find_spec(BACKENDS["triton"]) is not None
    return "triton" if kernels and torch.cuda.get_device_capability(device) >= (8, 0) else "reference"


def ops_of(backend: str) -> ModuleType:
    """Return the module that holds the ops of a backend: same names and arguments, whichever it is.

    Args:
        backend: "reference" (``linattn_ref.ops``) or "triton" (``linattn_kernels``).

    Returns:
        The module.

    Raises:
        ValueError: for another name, or a backend that is not installed.

    Example:
        >>> ops_of("reference").__name__
        'linattn_ref.ops'
    """
    if backend not in _LOADED:  # so that a compiled model finds it and imports nothing
        _LOADED[backend] = _load(backend)
    return _LOADED[backend]


def _load(backend: str) -> ModuleType:
    """Import a backend."""
    if backend not in BACKENDS:
        raise ValueError(f"backend: got {backend!r}, expected one of {sorted(BACKENDS)}")
    try:
        return import_module(BACKENDS[backend])
    except ModuleNotFoundError as error:
        if error.name != BACKENDS[backend]:
            raise  # something that the backend itself needs is missing
        raise ValueError(f"backend: got {backend!r}, but {BACKENDS[backend]} is not installed") from error
