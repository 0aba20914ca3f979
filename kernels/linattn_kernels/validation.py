"""Check arguments: what ``linattn_ref.ops`` checks, and what only a kernel must ask.

A kernel takes float32, bfloat16 or float16 on an NVIDIA GPU of compute capability 8.0 or later, K and V in
``HEAD_WIDTHS`` (linear attention: any V), and a chunk size that is a tile of the matrix unit. For anything
else it raises ``ValueError`` and says what to call instead: nothing falls back to another path in silence.

Values (a log decay above 0, NaN) are checked on the CPU alone, since a check would make the host wait for the
GPU; ``LINATTN_CHECK_VALUES=1`` asks for it there, too.
"""

import os

import torch
from torch import Tensor

from linattn_kernels.hardware import INTERPRETED, read_compute_capability
from linattn_ref.ops.validation import (
    check_chunk_size,
    check_cu_seqlens,
    check_log_decay,
    require,
    require_like,
    require_tensor,
)

HEAD_WIDTHS = (16, 32, 64, 128)  # K and V: a tile is a power of two, and a matrix unit takes 16 at least
LINEAR_CHUNK_SIZES = (16, 32, 64)  # there is no room for more beside the states
SOFTMAX_CHUNK_SIZES = (*LINEAR_CHUNK_SIZES, 128)  # keys in a tile
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Triton's interpreter computes bfloat16 wrongly
SUPPORTED_DTYPES = tuple(dtype for dtype in DTYPES if not (INTERPRETED and dtype == torch.bfloat16))


def check_supported(op: str, q: Tensor, v: Tensor | None = None) -> None:
    """Raise unless the kernel of ``op`` runs on this device, with this dtype and these head widths.

    Args:
        op: name of the function that was called; the message names its namesake in ``linattn_ref.ops``.
        q: ``[..., K]``.
        v: ``[..., V]``; None where any V will do.
    """
    instead = f"linattn_ref.ops.{op} takes any other"
    check_supported_dtype(q, "q", instead)
    _check_width(q, "q", instead)
    if v is not None:
        _check_width(v, "v", instead)
    check_device(q, instead)


def check_supported_dtype(x: Tensor, name: str, instead: str) -> None:
    """Raise unless a kernel takes the dtype of x."""
    expected = lambda: f"one of {', '.join(map(str, SUPPORTED_DTYPES))}; {instead}"  # noqa: E731
    require(x.dtype in SUPPORTED_DTYPES, name, lambda: f"{x.dtype}", expected)


def _check_width(x: Tensor, name: str, instead: str) -> None:
    """Raise unless heads are of a width that a kernel takes."""
    expected = lambda: f"one of {HEAD_WIDTHS}; {instead}"  # noqa: E731
    require(x.shape[-1] in HEAD_WIDTHS, name, lambda: f"a width of {int(x.shape[-1])}", expected)


def check_device(q: Tensor, instead: str) -> None:
    """Raise unless q lies on an NVIDIA GPU of compute capability 8.0 or later, or Triton interprets."""
    if INTERPRETED or torch.compiler.is_compiling():
        return
    expected = lambda: f"a CUDA tensor; {instead} device"  # noqa: E731
    require(q.is_cuda and torch.version.hip is None, "q", lambda: f"a tensor on {q.device}", expected)
    major, name = read_compute_capability(q) // 10, "a GPU of compute capability"
    require(major >= 8, "q", lambda: f"{name} {major}.x", lambda: f"{name} 8.0 or later; {instead} device")


def check_supported_chunk_size(op: str, chunk_size: int, supported: tuple[int, ...]) -> None:
    """Raise unless ``chunk_size`` is one of the tiles that the kernel of ``op`` has."""
    check_chunk_size(chunk_size)
    expected = lambda: f"one of {supported}; linattn_ref.ops.{op} takes any other"  # noqa: E731
    require(chunk_size in supported, "chunk_size", lambda: repr(chunk_size), expected)


def reads_values(x: Tensor) -> bool:
    """Return whether the values of x are checked."""
    return not x.is_cuda or os.environ.get("LINATTN_CHECK_VALUES") == "1"


def prepare_log_decay(log_decay: Tensor | None, q: Tensor) -> Tensor | None:
    """Check ``log_decay`` and return it contiguous, in float32."""
    if log_decay is None:
        return None
    require_tensor(log_decay, "log_decay", "a torch.Tensor or None")
    if reads_values(log_decay):
        check_log_decay(log_decay, q)
    else:
        require_like(log_decay, "log_decay", q, (log_decay.dtype,))
        check_log_decay(log_decay.to("meta"), q.to("meta"))  # shapes and dtypes without values
    return log_decay.to(torch.float32).contiguous()


def check_packed(cu_seqlens: Tensor, q: Tensor) -> int:
    """Return the number of sequences packed in q ``[1, T, H, K]``, or raise."""
    require_tensor(cu_seqlens, "cu_seqlens", "a torch.Tensor or None")
    return check_cu_seqlens(cu_seqlens, q, reads_values(cu_seqlens))
