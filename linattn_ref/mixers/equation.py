"""Write a mixer as a state equation: gate, write and read in S_t = G_t * S_{t-1} + W_t, o_t = read(q_t, S_t).

A ``StateEquation`` is a statement about a mixer, not the way it computes: mixers work with logarithms of
decays, in chunks, by FFT or by scan. The tests run every equation in a plain loop and compare; the book
prints its source text. Below are the functions that equations are written with, such as ``outer``.
"""

import ast
import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple

import torch

from linattn_ref.ops.shapes import Float, Tensor

Names = dict[str, Any]  # the quantities of an equation by name: tensors and numbers


class StateEquation(NamedTuple):
    """State the gate, write and read of a mixer as functions of named quantities.

    The arguments of the functions are names of what ``project`` returns, of what ``where`` adds, and: ``K``
    the width of a key, ``G`` the gate, ``S`` the states after each token, ``S_past`` those before it.
    Numbers per head have a last dimension of 1, so that they multiply vectors. Write each function as a
    lambda on a line of its own: ``text`` prints what stands behind its colon.

    Args:
        gate: G_t, numbers that broadcast to [B, T, H, K], or matrices [B, T, H, K, K], see ``gating``.
        write: W_t, [B, T, H, K, V].
        read: o_t, [B, T, H, V], what ``mix`` returns.
        learned: in words, the learned parameters in it besides the projections to q, k and v.
        gating: how the gate acts: "elementwise", each number on a row of S, or "matrix", from the left.
        where: ``(mixer, z) -> dict``, quantities that the equation names and ``project`` does not return.

    Example:
        >>> from linattn_ref.mixers import GLAMixer
        >>> GLAMixer.equation.text("gate"), GLAMixer.equation.text("write")
        ('sigmoid(a) ** (1 / 16)', 'outer(k, v)')
    """

    gate: Callable[..., Any]
    write: Callable[..., Tensor]
    read: Callable[..., Tensor]
    learned: str = "nothing"
    gating: Literal["elementwise", "matrix"] = "elementwise"
    where: Callable[[Any, Names], Names] = lambda mixer, z: {}

    def names(self, mixer: Any, z: Names) -> Names:
        """Return by name ``z``, the result of ``mixer.project``, ``K``, and what ``where`` adds."""
        K = {"K": z["k"].shape[-1]} if "k" in z else {}
        return {**K, **z, **self.where(mixer, z)}

    def text(self, part: Literal["gate", "write", "read"]) -> str:
        """Return the source text of the gate, the write or the read."""
        return read_source(getattr(self, part))


def evaluate(function: Callable[..., Any], names: Names) -> Tensor:
    """Return the value of a gate, write or read, called with those of ``names`` that are its arguments."""
    return torch.as_tensor(function(**{name: names[name] for name in inspect.signature(function).parameters}))


def read_source(function: Callable[..., Any]) -> str:
    """Return the source text of the body of a lambda, which must stand on a line of its own."""
    source, tree = _read_source(inspect.getsourcefile(function) or "")
    line = function.__code__.co_firstlineno
    (found,) = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == line]
    return " ".join((ast.get_source_segment(source, found.body) or "").split())


@cache
def _read_source(path: str) -> tuple[str, ast.Module]:
    """Return a file's text and its syntax tree."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    return source, ast.parse(source)


# --- the vocabulary of equations ---------------------------------------------------------------------------


def outer(k: Float[Tensor, "... K"], v: Float[Tensor, "... V"]) -> Float[Tensor, "... K V"]:
    """Return k^T v."""
    return k[..., :, None] * v[..., None, :]


def dot(q: Float[Tensor, "... K"], S: Float[Tensor, "... K V"]) -> Float[Tensor, "... V"]:
    """Return q S."""
    return (q[..., None, :] @ S)[..., 0, :]


def ratio(o: Float[Tensor, "... V+1"]) -> Float[Tensor, "... V"]:
    """Return o divided by its last entry, the sum of the scores."""
    return o[..., :-1] / (o[..., -1:] + 1e-6)


def bounded(o: Float[Tensor, "... V+1"]) -> Float[Tensor, "... V"]:
    """Return o divided by the size of its last entry, or by 1 if that is larger."""
    return o[..., :-1] / o[..., -1:].abs().clamp(min=1)


def quotient(S: Float[Tensor, "... 1 2"]) -> Float[Tensor, "... 1"]:
    """Return the first entry of a state, the numerator, divided by the second, the denominator."""
    return S[..., 0, :1] / S[..., 0, 1:]


def paired(y: Tensor) -> Tensor:
    """Return y plus its conjugate where numbers are complex, else y."""
    return 2 * y.real if y.is_complex() else y


def columns(z: Names, names: str) -> Names:
    """Return those of z whose names stand in ``names``, with a last dimension of 1, as numbers per head."""
    return {name: z[name][..., None] for name in names.split()}
