"""Cut, pick and copy states: what truncated backpropagation, beams and branches do with them.

The functions take what a mixer or a ``LanguageModel`` returned as its state, whatever is in it: a nested
tuple of tensors that begin with the batch, of counts of tokens, which stay as they are, and of None.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from linattn_ref.ops.shapes import Int, Tensor
from linattn_ref.ops.validation import require

AnyState = TypeVar("AnyState")


def detach_state(state: AnyState) -> AnyState:
    """Return a state through which no gradient flows back: for backpropagation that is truncated in time.

    Args:
        state: of a mixer or a model.

    Returns:
        The same numbers in the same memory, without their history.

    Example:
        >>> from linattn_ref.model import LanguageModel, ModelConfig
        >>> model = LanguageModel(ModelConfig("gla", d_model=32))
        >>> _, state = model(torch.tensor([[1, 2, 3]]))
        >>> (_, layers), (_, detached) = state, detach_state(state)
        >>> layers[0][0].requires_grad, detached[0][0].requires_grad
        (True, False)
    """
    return _apply(lambda x: x.detach(), state)


def reorder_state(state: AnyState, rows: Int[Tensor, " R"]) -> AnyState:
    """Return the states of some sequences of a batch, in any order and as often as wanted: for beam search.

    Args:
        state: of a mixer or a model, for B sequences.
        rows: numbers of the sequences, 0..B-1, int64 or int32 [R], on the device of the state.

    Returns:
        The state of R sequences, a copy.

    Raises:
        ValueError: for ``rows`` of another dtype or shape; torch refuses numbers beyond B - 1.

    Example:
        >>> from linattn_ref.model import LanguageModel, ModelConfig
        >>> model = LanguageModel(ModelConfig("gla", d_model=32))
        >>> _, state = model(torch.tensor([[1, 2], [3, 4]]))
        >>> logits, _ = model(torch.tensor([[5], [5], [5]]), reorder_state(state, torch.tensor([1, 1, 0])))
        >>> torch.equal(logits[0], logits[1]), torch.equal(logits[0], logits[2])
        (True, False)
    """
    found = f"{rows.dtype} {list(rows.shape)}" if isinstance(rows, Tensor) else repr(rows)
    right = isinstance(rows, Tensor) and rows.ndim == 1 and rows.dtype in (torch.int64, torch.int32)
    require(right, "rows", found, "int64 or int32 [R]")
    return _apply(lambda x: x.index_select(0, rows), state)


def expand_state(state: AnyState, branches: int) -> AnyState:
    """Return the state with each sequence repeated, its copies side by side: for branches from one prompt.

    Args:
        state: of a mixer or a model, for B sequences.
        branches: how many copies of each, at least 1.

    Returns:
        The state of ``B * branches`` sequences, a copy.

    Raises:
        ValueError: for ``branches`` below 1.

    Example:
        >>> from linattn_ref.model import LanguageModel, ModelConfig
        >>> model = LanguageModel(ModelConfig("gla", d_model=32))
        >>> _, state = model(torch.tensor([[1, 2, 3]]))
        >>> logits, _ = model(torch.tensor([[4], [5]]), expand_state(state, 2))
        >>> logits.shape
        torch.Size([2, 1, 256])
    """
    require(branches >= 1, "branches", str(branches), "at least 1")
    return _apply(lambda x: x.repeat_interleave(branches, 0), state)


def _apply(function: Callable[[Tensor], Tensor], state: Any) -> Any:
    """Return the state with ``function`` applied to each of its tensors; named tuples stay what they are."""
    if isinstance(state, tuple):
        parts = [_apply(function, part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return function(state) if isinstance(state, Tensor) else state
