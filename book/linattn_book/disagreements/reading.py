"""List disagreements about reading: scale, order, layout and denominator; and about positions."""

from functools import partial

import torch
from torch import Generator, Tensor

from linattn_book.disagreements.entry import Disagreement, attend, count, draw, fixed, qkv
from linattn_ref.mixers.base import merge_heads
from linattn_ref.mixers.parts import simple_rms, with_ones
from linattn_ref.ops.linear import normalised, recurrent_linear_attention
from linattn_ref.ops.position import cos_reweight, rotate
from linattn_ref.ops.rwkv6 import recurrent_rwkv6

# --- reading: pairs ----------------------------------------------------------------------------------------


def scale_root(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """FLA, nearly every op in fla/ops (not chunk_rwkv7): scale None is K^(-1/2)."""
    return recurrent_linear_attention(q, k, v).output


def scale_one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scaling study, arXiv 2406.16690, eq. 9, and lightning-attention: o = q S."""
    return attend(q, k, v)


def read_before(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:
    """RWKV-6, arXiv 2404.05892, section 4, with bonus 1: o_t = q (S_{t-1} + k^T v)."""
    return recurrent_rwkv6(q, k, v, torch.ones_like(q[0, 0]), log_decay, scale=1.0).output


def read_after(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:
    """GLA, arXiv 2312.06635, section 4: o_t = q S_t, and S_t has decayed S_{t-1}."""
    return attend(q, k, v, log_decay)


def state_v_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Mamba-2, mamba_ssm/modules/ssd_minimal.py: state [V, K], given to an op that expects [K, V]."""
    S = recurrent_linear_attention(q, k, v).state
    return q @ S.mT  # no shape complains where K = V


def state_k_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """FLA, fla/ops, default: state [K, V]."""
    return q @ recurrent_linear_attention(q, k, v).state


def no_denominator(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """FLA, fla/ops/linear_attn/fused_recurrent.py: normalize=False by default."""
    return recurrent_linear_attention(q, k, v).output


def denominator(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Katharopoulos et al., arXiv 2006.16236: divided by the sum of scores (FLA's chunk_linear_attn)."""
    return normalised(recurrent_linear_attention, q, k, v, eps=0.0).output


def norm_instead(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """TransNormerLLM, arXiv 2405.17381, section 4: a norm of the output in place of the denominator."""
    return simple_rms(merge_heads(attend(q, k, v)), 0.0)[:, :, None]


def epsilon_clamped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """cosFormer, cosformer.py: denominator clamped at 1e-6."""
    o = attend(q, k, with_ones(v))
    return o[..., :-1] / o[..., -1:].clamp(min=1e-6)


def epsilon_added(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Katharopoulos et al., fast-transformers: denominator plus 1e-6."""
    return normalised(recurrent_linear_attention, q, k, v, eps=1e-6).output


def positive(g: Generator, T: int = 16, size: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = qkv(g, T)
    return size * q.abs(), size * k.abs(), v


# --- positions: pairs --------------------------------------------------------------------------------------


def length_current(q: Tensor, k: Tensor, v: Tensor, early: int) -> Tensor:
    """cosFormer, cosformer.py: M is the length of the call."""
    return movement(q, k, v, early, q.shape[1], early)


def length_constant(q: Tensor, k: Tensor, v: Tensor, early: int) -> Tensor:
    """cosFormer, arXiv 2202.08791: any M of at least the length; a constant here."""
    return movement(q, k, v, early, q.shape[1], q.shape[1])


def movement(q: Tensor, k: Tensor, v: Tensor, early: int, M_late: int, M_early: int) -> Tensor:
    """Return how outputs of the early tokens change when all others have been appended [1, early, 1, V]."""
    before = cosformer(q[:, :early], k[:, :early], v[:, :early], M_early)
    return cosformer(q, k, v, M_late)[:, :early] - before


def cosformer(q: Tensor, k: Tensor, v: Tensor, M: int) -> Tensor:
    t = torch.arange(q.shape[1], dtype=torch.float64)
    q, k = (cos_reweight(x.relu(), t, M) for x in (q, k))
    return normalised(recurrent_linear_attention, q, k, v).output


def rope_neighbours(q: Tensor, k: Tensor) -> Tensor:
    """RoFormer, arXiv 2104.09864, section 3.2.2: channels 2c and 2c + 1 form a plane."""
    order = torch.arange(q.shape[-1]).unflatten(0, (-1, 2)).T.flatten()  # 0, 2, ..., 1, 3, ...
    return rope_halves(q[..., order], k[..., order])


def rope_halves(q: Tensor, k: Tensor) -> Tensor:
    """GPT-NeoX and transformers, rotate_half: channels c and c + K/2 form a plane."""
    t = torch.arange(q.shape[1], dtype=torch.float64)
    return torch.einsum("bihk,bjhk->bhij", rotate(q, t), rotate(k, t))  # scores [1, 1, T, T]


# --- entries -----------------------------------------------------------------------------------------------

reading = partial(Disagreement, subject="Reading the state")
positions = partial(Disagreement, subject="Positions")

READING: tuple[Disagreement, ...] = (
    reading(
        "scale",
        "Scale of the scores",
        "Softmax attention needs K^(-1/2). Linear attention does not; some code keeps it, some drops it.",
        scale_root,
        scale_one,
        "Ops scale by K^(-1/2) unless told otherwise, as most of FLA do; mixers follow their papers.",
        qkv,
        equal_when="K = 1",
        equal_inputs=partial(qkv, K=1),
    ),
    reading(
        "own-token",
        "Before or after writing",
        "RWKV-6 reads the old state and adds the token itself with a bonus. What a token finds has then been "
        "through one decay less than in GLA.",
        read_before,
        read_after,
        "After writing, except in RWKV-6 itself: a token then reads itself without a bonus.",
        lambda g: (*qkv(g), -draw(g, 1, 16, 1, 4).abs()),
        equal_when="nothing decays and the bonus is 1",
        equal_inputs=lambda g: (*qkv(g), torch.zeros(1, 16, 1, 4).double()),
    ),
    reading(
        "state-layout",
        "State K x V or V x K",
        "A state in the other layout has the right shape whenever K = V, and no error is raised.",
        state_v_first,
        state_k_first,
        "K x V, as in FLA and in o = q S.",
        qkv,
        equal_when="k = v, so that the state is symmetric",
        equal_inputs=lambda g: (draw(g, 1, 16, 1, 4), *[draw(g, 1, 16, 1, 4)] * 2),
    ),
    reading(
        "normaliser-default",
        "Denominator or none",
        "Two forms of one FLA op differ in a default: the chunk form divides by the sum of scores, the "
        "recurrent form does not.",
        no_denominator,
        denominator,
        "It is said by name: `normalised(op, ...)` divides, an op by itself does not.",
        positive,
        equal_when="the scores of every row sum to 1",
        equal_inputs=lambda g: (1 / count(16), torch.ones(1, 16, 1, 1).double(), qkv(g)[2]),
    ),
    reading(
        "normaliser-norm",
        "Denominator or norm",
        "Later models drop the denominator and normalise the output instead. That fixes its size, not the "
        "sum of its weights.",
        norm_instead,
        denominator,
        "Each where its paper has it; `normaliser` in the configuration chooses for linear attention.",
        positive,
        equal_when="there is one token and its value has root mean square 1",
        equal_inputs=lambda g: (*positive(g, 1)[:2], torch.ones(1, 1, 1, 4).double()),
    ),
    reading(
        "normaliser-epsilon",
        "Small denominators",
        "Clamping leaves a sum of scores of 0.000001 alone; adding 0.000001 doubles it, and halves the "
        "output.",
        epsilon_clamped,
        epsilon_added,
        "Adding: it has a gradient everywhere.",
        fixed(*(x * torch.ones(1, 1, 1, 1).double() for x in (1e-3, 1e-3, 1.0))),
        unit="times the value (one token, scores that sum to 0.000001)",
        equal_when="the sum of scores is large",
        equal_inputs=partial(positive, size=1e6),
    ),
    positions(
        "cosformer-length",
        "Length in cosFormer",
        "With M the current length, the weights of earlier tokens change whenever one is appended. Early "
        "outputs move, and a sequence cannot be read token by token.",
        length_current,
        length_constant,
        "A constant M (`max_length`): the past must stay as it was.",
        lambda g: (*qkv(g, 32), 16),
        unit="by which outputs of the first 16 tokens move when 16 more follow (0 for a constant M)",
        equal_when="no token is appended",
        equal_inputs=lambda g: (*qkv(g, 16), 16),
    ),
    positions(
        "rope-planes",
        "Planes of RoPE",
        "The paper turns neighbouring channels, much code turns halves. The two are the same up to the order "
        "of channels, so trained weights must be reordered.",
        rope_neighbours,
        rope_halves,
        "Halves: two slices instead of a shuffle.",
        lambda g: qkv(g)[:2],
        unit="times the largest score",
        equal_when="K = 2, a single plane",
        equal_inputs=lambda g: qkv(g, K=2)[:2],
    ),
)
