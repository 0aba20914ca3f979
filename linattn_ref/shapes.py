"""The letters of the book, and the check that array annotations mean what they say.

======  =======================================
letter  dimension
======  =======================================
B       batch
T       time (tokens of this call)
S       tokens already in a cache
H       heads
K       key and query width per head
V       value width per head
C       chunk length
N       number of chunks
D       model width
======  =======================================

The state of linear attention is ``[B, H, K, V]``; sequences are ``[B, T, H, .]``, never heads first.
"""

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor

__all__ = ["Float", "Int", "Tensor", "shaped"]

F = TypeVar("F", bound=Callable)


def shaped(function: F) -> F:
    """Enforce the jaxtyping annotations of an internal function when ``LINATTN_CHECK_SHAPES=1``.

    The tests set the variable. Everywhere else the annotations are documentation and cost nothing.
    torch.compile, which cannot trace the checks, sees the bare function.
    """
    if os.environ.get("LINATTN_CHECK_SHAPES") != "1":
        return function
    from beartype import beartype

    checked = jaxtyped(typechecker=beartype)(function)

    @functools.wraps(function)
    def checked_unless_compiling(*args: Any, **kwargs: Any) -> Any:
        return (function if torch.compiler.is_compiling() else checked)(*args, **kwargs)

    return cast(F, checked_unless_compiling)
