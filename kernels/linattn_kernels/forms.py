"""Which op has a kernel. The ladder of tests reads this registry beside ``linattn_ref.ops.FORMS``."""

from typing import Any

from linattn_kernels.chunk import chunk_linear_attention
from linattn_kernels.door import CHUNKS, HERE, WIDTHS
from linattn_kernels.softmax import TILES, chunk_softmax_attention
from linattn_ref.ops.forms import Form


def supports_linear(case: Any) -> bool:
    """K, chunk sizes and dtypes that the kernels of linear attention take; any V."""
    return case.K in WIDTHS and case.chunk_size in CHUNKS and case.dtype in HERE


def supports_softmax(case: Any) -> bool:
    """The same, but larger tiles too, and no other V."""
    return {case.K, case.V} <= set(WIDTHS) and case.chunk_size in TILES and case.dtype in HERE


FORMS: tuple[Form, ...] = (
    Form("linear_attention", "chunk", chunk_linear_attention, True, supports_linear),
    Form("softmax_attention", "chunk", chunk_softmax_attention, True, supports_softmax),
)
