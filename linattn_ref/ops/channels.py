"""What ops on channels do at their door: u ``[B, T, D]``, every channel with a state of its own."""

from typing import NamedTuple

import torch

from linattn_ref.ops.inputs import compute_dtype, require, require_like, require_shape, require_tensor
from linattn_ref.ops.shapes import Tensor


class ChannelResult(NamedTuple):
    """Output ``[B, T, D]`` in u's dtype and state ``[B, D, N]`` in float32 at least (or complex64)."""

    output: Tensor
    state: Tensor


def check_channels(x: Tensor, name: str) -> None:
    """``[B, T, D]``, floating, nothing empty."""
    require_tensor(x, name)
    require(x.ndim == 3, name, lambda: f"shape {list(x.shape)}", "[B, T, D], three dimensions")
    require(all(n > 0 for n in x.shape), name, lambda: f"shape {list(x.shape)}", "no empty dimension")
    require(x.is_floating_point(), name, str(x.dtype), "a floating dtype")


def check_beside(x: Tensor, name: str, u: Tensor, shape: tuple[int, ...]) -> None:
    """A real argument beside u: its shape, in u's dtype or in the one computed in, on u's device."""
    require_tensor(x, name)
    require_shape(x, name, shape)
    require_like(x, name, u, tuple(dict.fromkeys((u.dtype, compute_dtype(u)))))


def checked_state(
    state: Tensor | None, name: str, u: Tensor, shape: tuple[int, int], dtype: torch.dtype
) -> Tensor:
    """``[B, *shape]`` in the dtype computed in; None is zeros."""
    if state is None:
        return torch.zeros(u.shape[0], *shape, dtype=dtype, device=u.device)
    require_tensor(state, name, "a torch.Tensor or None")
    require_shape(state, name, (u.shape[0], *shape))
    require_like(state, name, u, (dtype,))
    return state


def check_one_of_channels(u: Tensor, name: str = "u") -> None:
    """A step takes T = 1."""
    require_tensor(u, name)
    one = u.ndim == 3 and u.shape[1] == 1
    require(one, name, lambda: f"shape {list(u.shape)}", "[B, 1, D], one token")


def check_choice(value: object, name: str, choices: tuple[str, ...]) -> None:
    require(value in choices, name, lambda: repr(value), " or ".join(map(repr, choices)))


def width_of_state(A: Tensor, D: int) -> int:
    """N of A ``[D, N]``."""
    require_tensor(A, "A")
    fits = A.ndim == 2 and A.shape[0] == D and A.shape[1] > 0
    require(fits, "A", lambda: f"shape {list(A.shape)}", lambda: f"[D, N] with D = {D}")
    return A.shape[1]


def complex_dtype(u: Tensor) -> torch.dtype:
    """The complex dtype of the precision that is computed in."""
    return torch.complex128 if compute_dtype(u) == torch.float64 else torch.complex64
