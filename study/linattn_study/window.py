"""Let softmax attention look back a number of tokens only, so that its cache has a bounded size."""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from linattn_ref.mixers.base import State
from linattn_ref.mixers.softmax import SoftmaxMixer
from linattn_ref.model import LanguageModel
from linattn_ref.ops.results import KVCache
from linattn_ref.ops.validation import require


def attend_in_window(
    q: Tensor, k: Tensor, v: Tensor, state: State | None, window: int
) -> tuple[Tensor, KVCache]:
    """Return softmax attention to the last ``window`` tokens, the present one among them.

    Args:
        q, k, v: [B, T, H, K].
        state: None; a window trains and answers on whole sequences.
        window: tokens that are looked at.

    Returns:
        o [B, T, H, K], and the keys and values of the last ``window`` tokens.

    Raises:
        ValueError: for a state.
    """
    require(state is None, "state", "a cache", "None: a window answers on whole sequences")
    t = torch.arange(q.shape[1], device=q.device)
    age = t[:, None] - t
    mask = (age >= 0) & (age < window)  # [T, T]
    q, *kept = (z.transpose(1, 2) for z in (q, k, v))  # [B, H, T, K]
    o = scaled_dot_product_attention(q, kept[0], kept[1], attn_mask=mask)
    return o.transpose(1, 2), KVCache(k[:, -window:], v[:, -window:])


def limit_window(model: LanguageModel, window: int) -> None:
    """Let every softmax layer of a model look back ``window`` tokens, as in Mistral 7B (arXiv 2310.06825)."""
    for module in model.modules():
        if isinstance(module, SoftmaxMixer):
            module.attend = partial(attend_in_window, window=window)  # type: ignore[method-assign]
