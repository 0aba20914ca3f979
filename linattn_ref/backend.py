"""Choose the module that a model takes its ops from: the reference or the Triton kernels.

No other module of the reference imports the kernel package, and this one does so only when it is asked for.
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch

BACKENDS = {"reference": "linattn_ref.ops", "triton": "linattn_kernels"}
_LOADED: dict[str, ModuleType] = {}  # backends that were imported before, by name


def choose_backend(device: torch.device) -> str:
    """Return the backend to use on a device: the kernels where they run, else the reference.

    The kernels need ``linattn_kernels`` installed, and an NVIDIA GPU of compute capability 8.0 or higher; the
    T4 of a free notebook has 7.5.

    Args:
        device: the device that the model will be on.

    Returns:
        "triton" or "reference", for ``ModelConfig.backend``.

    Example:
        >>> choose_backend(torch.device("cpu"))
        'reference'
    """
    kernels = device.type == "cuda" and find_spec(BACKENDS["triton"]) is not None
    return "triton" if kernels and torch.cuda.get_device_capability(device) >= (8, 0) else "reference"


def load_ops(backend: str) -> ModuleType:
    """Return the module that holds the ops of a backend.

    An op has the same name and arguments in every backend, but a backend need not have every op.

    Args:
        backend: "reference" (``linattn_ref.ops``) or "triton" (``linattn_kernels``).

    Returns:
        The module.

    Raises:
        ValueError: for another name, or for "triton" where ``linattn_kernels`` is not installed (the extra
            ``linattn-ref[kernels]`` does that).

    Example:
        >>> load_ops("reference").__name__
        'linattn_ref.ops'
    """
    if backend not in _LOADED:  # so that a compiled model finds the module here and traces no import
        _LOADED[backend] = _load(backend)
    return _LOADED[backend]


def _load(backend: str) -> ModuleType:
    """Import the module of a backend, or raise as ``load_ops`` says."""
    if backend not in BACKENDS:
        raise ValueError(f"backend: got {backend!r}, expected one of {sorted(BACKENDS)}")
    try:
        return import_module(BACKENDS[backend])
    except ModuleNotFoundError as error:
        if error.name != BACKENDS[backend]:
            raise  # something that the backend itself needs is missing
        install = 'pip install "linattn-ref[kernels]"'
        raise ValueError(
            f"backend: got {backend!r}, but {BACKENDS[backend]} is not installed: {install}"
        ) from error
