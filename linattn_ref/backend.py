"""Where the ops of a model come from. The only place that knows the kernel package."""

from importlib import import_module
from types import ModuleType

BACKENDS = {"reference": "linattn_ref.ops", "triton": "linattn_kernels"}
_LOADED: dict[str, ModuleType] = {}


def ops_of(backend: str) -> ModuleType:
    """The module that holds the ops: same names and arguments, whichever it is."""
    if backend not in _LOADED:  # so that a compiled model finds it and imports nothing
        _LOADED[backend] = _load(backend)
    return _LOADED[backend]


def _load(backend: str) -> ModuleType:
    if backend not in BACKENDS:
        raise ValueError(f"backend: got {backend!r}, expected one of {sorted(BACKENDS)}")
    try:
        return import_module(BACKENDS[backend])
    except ModuleNotFoundError as error:
        if error.name != BACKENDS[backend]:
            raise  # something that the backend itself needs is missing
        raise ValueError(f"backend: got {backend!r}, but {BACKENDS[backend]} is not installed") from error
