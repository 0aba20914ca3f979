"""Name the letters of the book, and check that array annotations mean what they say.

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
M       number of chunks
N       numbers in the state of one channel (state space models)
D       model width; channels of a state space model
======  =======================================

The state of linear attention is ``[B, H, K, V]``, that of a state space model ``[B, D, N]``; sequences are
``[B, T, H, .]`` or ``[B, T, D]``, never heads first.
"""

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Complex, Float, Inexact, Int, jaxtyped
from torch import Tensor

__all__ = [
    "Complex", "Float", "Gates", "Inexact", "Int", "Keys", "State", "Tensor", "Values", "check_shapes",
]  # fmt: skip

# what the bodies of ops on heads take and return
Keys = Float[Tensor, "B T H K"]  # queries as well
Values = Float[Tensor, "B T H V"]  # and outputs
Gates = Float[Tensor, "B T H _"]  # log decays: a number per head, or K
State = Float[Tensor, "B H K V"]

F = TypeVar("F", bound=Callable)


def check_shapes(function: F) -> F:
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
