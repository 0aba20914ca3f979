"""List the cases of the kernels' ladder: pairwise covers by the ladder's generator, at sizes kernels take."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from linattn_kernels.forms import FORMS
from linattn_kernels.validation import DTYPES, HEAD_WIDTHS
from tests.ops.ladder import LENGTHS, OPS, cases_of, packed_cases_of
from tests.ops.ladder_cases import Case

KERNEL_OPS = tuple(dict.fromkeys(form.op for form in FORMS))


def example(op: str, decay: str | None = None, **fields: object) -> Case:
    """Return a small case with an initial state and three chunks, the last of them not full."""
    sizes = {"T": 40, "B": 1, "H": 2, "K": 16, "V": 32, "chunk_size": 16, "dtype": torch.float32}
    return Case(op, **sizes | {"decay": decay, "start": True} | fields)  # type: ignore[arg-type]


VARIANTS = {  # decays that kernels take, and their strengths
    form.op: [kind for kind in OPS[form.op].variants if form.supports(example(form.op, kind[0]))]
    for form in FORMS
}

# --- on the CPU: Triton's interpreter is exact in float32 and float16, and slow ---------------------------

SMALL = ({"B": 1, "H": 2, "K": 16, "V": 32}, {"B": 2, "H": 1, "K": 32, "V": 16})
INTERPRETER_LENGTHS = tuple(T for T in LENGTHS if T != 63)  # 65 leaves a chunk unfilled as well
INTERPRETER_CASES = {
    op: cases_of(
        op, (32, 64, 16), SMALL, VARIANTS[op], T=INTERPRETER_LENGTHS, dtype=(torch.float32, torch.float16)
    )
    for op in KERNEL_OPS
}


def packed(
    op: str, lengths: Sequence[tuple[int, ...]], widths: tuple[int, ...], **factors: Any
) -> list[Case]:
    """Return cases with packed sequences, and mild decays: what is hard is in the covers above."""
    mild = [kind for kind in VARIANTS[op] if kind[1] == "mild"]
    return packed_cases_of(op, (16, 32, 64), lengths, variants=mild, K=widths, V=widths, **factors)


PACKED_CASES = {
    op: packed(op, ((1, 1, 1), (5, 20, 0, 1)), (16, 32), dtype=(torch.float32, torch.float16))
    for op in KERNEL_OPS
}


def examples(**fields: object) -> list[Case]:
    """Return a small case for every kind of decay of every op that has a kernel."""
    decays = {op: dict.fromkeys(decay for decay, _ in VARIANTS[op]) for op in KERNEL_OPS}
    return [example(op, decay, **fields) for op in KERNEL_OPS for decay in decays[op]]


def chunk_sizes_of(op: str) -> tuple[int, ...]:
    """Return the chunk sizes that the kernels of an op take."""
    (form,) = (form for form in FORMS if form.op == op)
    return tuple(size for size in (16, 32, 64, 128) if form.supports(replace(example(op), chunk_size=size)))


# --- on the GPU --------------------------------------------------------------------------------------------

PACKED_ON_GPU = {
    op: packed(
        op, ((1, 1, 1), (5, 200, 0, 1, 64, 130), (0, 63, 640, 0), (1,) * 40), HEAD_WIDTHS, dtype=DTYPES
    )
    for op in KERNEL_OPS
}
GPU_CASES = {
    op: cases_of(
        op,
        chunk_sizes_of(op),
        ({"B": 1, "H": 3}, {"B": 2, "H": 2}),
        VARIANTS[op],
        K=HEAD_WIDTHS,
        V=HEAD_WIDTHS,
        T=(*LENGTHS, 1000),
        dtype=DTYPES,
    )
    for op in KERNEL_OPS
}


def _long(op: str, dtype: torch.dtype, **fields: object) -> Case:
    """Return a case of more than 2^16 tokens."""
    sizes = {"T": 65_537, "B": 1, "H": 2, "K": 64, "V": 32, "chunk_size": 64, "start": True}
    return Case(op, dtype=dtype, **sizes | fields)  # type: ignore[arg-type]


LONG_CASES = [
    _long("linear_attention", torch.bfloat16),
    _long("linear_attention", torch.float32, decay="head"),
    _long("linear_attention", torch.bfloat16, decay="token"),
    _long("linear_attention", torch.float16, decay="token", strength="hard"),
    _long("linear_attention", torch.bfloat16, decay="channel"),
    _long("linear_attention", torch.float32, decay="channel", strength="hard"),
    _long("linear_attention", torch.float16, decay="head", B=16, T=65_536, H=1, K=16, V=16),
    _long("linear_attention", torch.bfloat16, decay="token", B=1024, T=1024, H=1, K=16, V=16),
    _long("delta_rule", torch.bfloat16),
    _long("delta_rule", torch.float32, decay="head", K=32),
    _long("delta_rule", torch.bfloat16, decay="token", strength="hard"),
    _long("delta_rule", torch.float16, decay="token", H=1),
    _long("softmax_attention", torch.bfloat16, H=1),
    _long("softmax_attention", torch.float32, H=1, K=32),
]
LAW_CASES = [
    case for dtype in DTYPES for case in examples(T=1000, B=2, H=3, K=64, V=32, chunk_size=64, dtype=dtype)
]
WIDTH_CASES = [
    example("linear_attention", decay, T=300, B=2, H=3, K=K, V=V, chunk_size=64, dtype=torch.bfloat16)
    for decay in (None, "head", "token", "channel")
    for K in HEAD_WIDTHS
    for V in HEAD_WIDTHS
] + [
    example("delta_rule", decay, T=300, B=2, H=3, K=K, V=V, chunk_size=64, dtype=torch.bfloat16)
    for decay in (None, "token")
    for K in HEAD_WIDTHS
    for V in HEAD_WIDTHS
]  # tiles of a matrix unit differ with every pair of widths
ANY_V_CASES = [
    example("linear_attention", decay, T=200, B=2, H=3, K=64, V=V, chunk_size=64, dtype=dtype)
    for decay, V, dtype in zip((None, "head", "token", "channel"), (65, 5, 129, 33), DTYPES * 2, strict=False)
]
CLIFF_CASES = [
    example("linear_attention", decay, T=200, strength="cliff", chunk_size=64, K=32, dtype=dtype)
    for decay in ("token", "channel")
    for dtype in DTYPES
]
STEP_CASES = [
    case
    for op in KERNEL_OPS
    for case in cases_of(
        op,
        (16,),
        ({"B": 3, "H": 2}, {"B": 1, "H": 5}),
        K=HEAD_WIDTHS,
        V=HEAD_WIDTHS,
        T=(6,),
        dtype=DTYPES,
    )  # steps take every kind of decay
]
SCAN_STRENGTHS = [("euler", strength) for strength in ("mild", "hard", "all -50", "slow")]


def scan(T: int, channels: int, states: int, **fields: Any) -> Case:
    """Return a case of the selective scan."""
    sizes = {"B": 2, "K": channels, "V": states, "decay": "euler", "start": True}
    return Case("selective_scan", T=T, **sizes | fields)


SCAN_LAWS = [scan(1000, 40, 16, dtype=dtype) for dtype in DTYPES]
SCAN_CASES = [
    scan(300, 2100, 16, B=8, dtype=torch.bfloat16),  # channels for the whole GPU: time is not cut
    scan(20_000, 70, 16, B=1, dtype=torch.bfloat16, strength="slow"),
    *(scan(130, 33, states, dtype=dtype) for states in (1, 5, 64, 128) for dtype in DTYPES),
    *cases_of(
        "selective_scan",
        (16,),
        ({"B": 1, "K": 9}, {"B": 2, "K": 40}),
        SCAN_STRENGTHS,
        V=(3, 16, 32),
        T=(*LENGTHS, 1000),
        dtype=DTYPES,
    ),
]
# more numbers in a tensor than 2^31: 2^20 tokens of 34 heads of 64, or of 17 of 128; 2^14 times 34 states
_many = {"dtype": torch.bfloat16, "start": False, "chunk_size": 64, "T": 2**20, "H": 34, "K": 64, "V": 64}
LARGE_CASES = [
    example("linear_attention", None, **_many),
    example("linear_attention", "token", **_many),
    example("linear_attention", "channel", **_many | {"H": 17, "K": 128, "V": 16}),
    example("softmax_attention", None, **_many | {"B": 64, "T": 2**14}),
]
LARGE_STEPS = [
    example("linear_attention", "token", **_many | {"B": 2**14, "T": 1, "start": True}),
    example("softmax_attention", None, **_many | {"T": 1, "start": True}),
]
LARGE_CACHE = 2**20 - 1  # tokens, in the last of these

# --- what runs where ---------------------------------------------------------------------------------------


class LadderCases(NamedTuple):
    """Hold the cases of ``test_gpu_ladder.py``.

    Attributes:
        precision: held to float64.
        laws: checked in every way that there is.
        steps: computed token by token.
        large: of more numbers than 32 bits count.
        large_steps: one token on such a state.
    """

    precision: list[Case]
    laws: list[Case]
    steps: list[Case]
    large: list[Case]
    large_steps: list[Case]


_laws = [example("linear_attention", "token", T=20), scan(20, 5, 3, dtype=torch.float32)]
IN_INTERPRETER = LadderCases(
    precision=[*_laws, example("linear_attention", "channel", T=33), example("softmax_attention", T=20)],
    laws=_laws,
    steps=_laws,
    large=[example("linear_attention", "token", T=70, H=3, start=False)],
    large_steps=[],
)
LAWS_ON_GPU = [*LAW_CASES, *SCAN_LAWS]
_covers = [case for cases in (*GPU_CASES.values(), *PACKED_ON_GPU.values()) for case in cases]
ON_GPU = LadderCases(  # what takes long comes first
    precision=[*LONG_CASES, *LAWS_ON_GPU, *CLIFF_CASES, *ANY_V_CASES, *WIDTH_CASES, *SCAN_CASES, *_covers],
    laws=LAWS_ON_GPU,
    steps=[*LAWS_ON_GPU, *STEP_CASES],
    large=LARGE_CASES,
    large_steps=LARGE_STEPS,
)
