"""List disagreements about gates: TNL's fixed decays, HGRN2's learned ones, and what stands around them."""

import math
from functools import partial

import torch
from torch import Generator, Tensor
from torch.nn.functional import layer_norm, logsigmoid, pad, silu

from linattn_book.disagreements.entry import Disagreement, absolute, attend, draw, fixed, of_each, qkv
from linattn_ref.mixers.hgrn2 import LayerBounds
from linattn_ref.mixers.parts import simple_rms
from linattn_ref.mixers.tnl import annealing, slopes
from linattn_ref.ops.linear import recurrent_linear_attention

# --- TNL: pairs --------------------------------------------------------------------------------------------


def tnl_printed(n_heads: int) -> Tensor:
    """TransNormerLLM, arXiv 2405.17381, eq. 10: decay exp(-8i/H)."""
    return math.log(2) / slopes(n_heads, "printed")  # half-life of every head [H]


def tnl_released(n_heads: int) -> Tensor:
    """lightning-attention, lightning_attn/utils/utils.py: decay exp(-2^(-8i/H))."""
    return math.log(2) / slopes(n_heads)


def heads_plain(*sizes: int) -> Tensor:
    """transformers, models/minimax/modeling_minimax.py: 2^(-8i/H) for every H."""
    plain = [2.0 ** (-8 * torch.arange(1, H + 1, dtype=torch.float64) / H) for H in sizes]
    return math.log(2) / torch.cat([s.sort().values for s in plain])  # heads in order of memory


def heads_released(*sizes: int) -> Tensor:
    """lightning-attention, lightning_attn/utils/utils.py: slopes of the power of two below, then others."""
    return math.log(2) / torch.cat([slopes(H).sort().values for H in sizes])


def ramp_printed(n_heads: int, layer: int, n_layers: int) -> Tensor:
    """TransNormerLLM, arXiv 2405.17381, eq. 10, read with heads i and layers l from 1."""
    return (-slopes(n_heads, "printed") * annealing(layer, n_layers, "printed")).exp()  # decays [H]


def ramp_fla(n_heads: int, layer: int, n_layers: int) -> Tensor:
    """FLA, fla/ops/lightning_attn/chunk.py: the same formula, heads and layers from 0."""
    return (-(slopes(n_heads, "printed") - 8 / n_heads) * (1 - layer / n_layers)).exp()


def anneal_printed(n_layers: int) -> Tensor:
    """TransNormerLLM, arXiv 2405.17381, eq. 10: 1 - l/L, read with l = 1..L."""
    return torch.tensor([annealing(l, n_layers, "printed") for l in range(n_layers)], dtype=torch.float64)


def anneal_released(n_layers: int) -> Tensor:
    """lightning-attention, examples/module/tnl_attn.py: 1 - l/(L-1) + 1e-5, l = 0..L-1."""
    return torch.tensor([annealing(l, n_layers) for l in range(n_layers)], dtype=torch.float64)


def value_plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scaling study, arXiv 2406.16690, eq. 9: SiLU on q and k."""
    return attend(silu(q), silu(k), v)


def value_silu(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """lightning-attention, examples/module/tnl_attn.py: SiLU on q, k and v."""
    return attend(silu(q), silu(k), silu(v))


def norm_rms(o: Tensor) -> Tensor:
    """TransNormerLLM, arXiv 2405.17381, eq. 14: SRMSNorm, x over its root mean square."""
    return simple_rms(o, 1e-6)


def norm_layer(o: Tensor) -> Tensor:
    """lightning-attention, examples/module/tnl_attn.py: LayerNorm, here without gain and bias."""
    return layer_norm(o, o.shape[-1:], eps=1e-6)


def block_full(k: Tensor, v: Tensor, log_decay: Tensor, block: int) -> Tensor:
    """lightning-attention, lightning_attn/ops/triton/lightning_attn2.py: lambda^B in every block."""
    k, v = (pad(x, (0, 0, 0, 0, 0, -x.shape[1] % block)) for x in (k, v))  # nothing written, yet forgotten
    return recurrent_linear_attention(k, k, v, log_decay).state


def block_ragged(k: Tensor, v: Tensor, log_decay: Tensor, block: int) -> Tensor:
    """transformers, models/minimax/modeling_minimax.py: lambda^b, b the length of the last block."""
    return recurrent_linear_attention(k, k, v, log_decay).state


def blocks(g: Generator, T: int) -> tuple[Tensor, Tensor, Tensor, int]:
    return *qkv(g, T)[1:], torch.tensor([-0.1], dtype=torch.float64), 8


# --- HGRN2: pairs ------------------------------------------------------------------------------------------


def bound_plain(logits: Tensor) -> Tensor:
    """Scaling study, arXiv 2406.16690, eq. 12: cumulative sum of softmax over layers."""
    return 1 - logits.softmax(0).cumsum(0)  # [L, D], the largest key of each layer


def bound_released(logits: Tensor) -> Tensor:
    """FLA, fla/models/hgrn2/modeling_hgrn2.py: cumulative sum minus its first row."""
    bounds = LayerBounds(*logits.shape)
    bounds.logits.data = logits
    return torch.stack([1 - bounds(layer) for layer in range(len(logits))])


def key_from_log(f: Tensor) -> Tensor:
    """FLA, fla/layers/hgrn2.py: k = 1 - exp(log f)."""
    return 1 - logsigmoid(f).exp()


def key_from_sigmoid(f: Tensor) -> Tensor:
    """linattn_ref, mixers/hgrn2.py: k = (1 - bound) sigmoid(-f), here with bound 0."""
    return torch.sigmoid(-f)


def hgrn2_sigmoid(q: Tensor, f: Tensor, v: Tensor) -> Tensor:
    """HGRN2's authors, hgru2-pytorch, hgru2_pytorch/hgru2_1d.py: sigmoid on q, SiLU on v."""
    return attend(torch.sigmoid(q), torch.sigmoid(-f), silu(v), logsigmoid(f))


def hgrn2_silu(q: Tensor, f: Tensor, v: Tensor) -> Tensor:
    """FLA, fla/layers/hgrn2.py: SiLU on q, nothing on v."""
    return attend(silu(q), torch.sigmoid(-f), v, logsigmoid(f))


# --- entries -----------------------------------------------------------------------------------------------

tnl = partial(Disagreement, subject="TNL")
hgrn2 = partial(Disagreement, subject="HGRN2")

GATES: tuple[Disagreement, ...] = (
    tnl(
        "tnl-slopes",
        "Slopes",
        "The printed decays halve in less than a token; the released ones halve in 1.4 to 177 tokens.",
        tnl_printed,
        tnl_released,
        "The released slopes: they are what was published to run.",
        fixed(8),
        unit="tokens of half-life, in the head that remembers longest (8 heads, first layer, no annealing)",
        difference=absolute,
        unsettled="which of the two the scaling study trained",
    ),
    tnl(
        "tnl-heads",
        "Numbers of heads that are no power of two",
        "The released rule takes the slopes of the power of two below and fills up with every second one of "
        "the power above; the plain formula knows no such step. The study's models have 6, 12 and 20 heads.",
        heads_plain,
        heads_released,
        "The released rule, as with the slopes.",
        fixed(6, 12, 20),
        unit="tokens of half-life (6, 12 and 20 heads, each sorted, the largest gap)",
        difference=absolute,
        equal_when="the number of heads is a power of two",
        equal_inputs=fixed(4, 8, 16),
    ),
    tnl(
        "tnl-ramp",
        "Counting from 0 or from 1",
        "In the printed formula, FLA counts heads and layers from 0. Its first head then never forgets, and "
        "its top layer still does.",
        ramp_printed,
        ramp_fla,
        "Neither by default; the option `decay='printed'` counts from 1: the top layer then forgets nothing.",
        fixed(8, 0, 12),
        unit="in a decay between 0 and 1 (8 heads, first of 12 layers)",
        difference=absolute,
        unsettled="whether the paper counts layers from 0 or from 1",
    ),
    tnl(
        "tnl-annealing",
        "Annealing over layers",
        "The printed factor on the slopes runs from 1 - 1/L to 0, the released one from 1 to 0.00001. The "
        "released one divides by zero for a single layer.",
        anneal_printed,
        anneal_released,
        "The released factor; a single layer gets 1.00001.",
        fixed(12),
        unit="in the factor (12 layers)",
        difference=absolute,
    ),
    tnl(
        "tnl-value",
        "Activation of the values",
        "The released layer has a SiLU on v as well; the equations have none.",
        value_plain,
        value_silu,
        "No activation on v: both papers print it so.",
        qkv,
        equal_when="values are large and positive, where SiLU changes nothing",
        equal_inputs=lambda g: (*qkv(g)[:2], 50 + draw(g, 1, 16, 1, 4).abs()),
        unsettled="which of the two the scaling study trained",
    ),
    tnl(
        "tnl-norm",
        "Norm of the output",
        "The paper divides by the root mean square; the released layer also subtracts the mean.",
        norm_rms,
        norm_layer,
        "SRMSNorm, as printed; the paper finds the same loss to 0.001 for both.",
        lambda g: (draw(g, 1, 16, 32),),
        equal_when="the mean over channels is 0",
        equal_inputs=lambda g: ((o := draw(g, 1, 16, 32)) - o.mean(-1, keepdim=True),),
    ),
    tnl(
        "lightning-last-block",
        "Last block of lightning attention",
        "If the last block is shorter, a decay by the full block length forgets too much. The kernel returns "
        "no state, so there it does no harm; a state kept for decoding would be wrong. By its indexing the "
        "kernel's state carries one more lambda, which is left out here.",
        block_full,
        block_ragged,
        "The real length: prefill and decoding must give the same state.",
        lambda g: blocks(g, 20),
        unit="times the largest entry of the state (20 tokens, blocks of 8)",
        equal_when="the length is a multiple of the block",
        equal_inputs=lambda g: blocks(g, 16),
    ),
    hgrn2(
        "hgrn2-bound",
        "Lower bounds of the gates",
        "The plain cumulative sum reaches 1 in the top layer: nothing is forgotten there and nothing "
        "written, the layer is dead. Without its first row the sum starts at 0 and stays below 1.",
        bound_plain,
        bound_released,
        "Minus the first row: every layer can write.",
        fixed(torch.zeros(4, 8, dtype=torch.float64)),
        unit="in the largest key a layer can write (4 layers, equal logits)",
        difference=absolute,
        equal_when="the first layer's share of the softmax is 0",
        equal_inputs=fixed(torch.tensor([[-1000.0], [0.0], [0.0], [0.0]], dtype=torch.float64)),
        unsettled="which of the two the scaling study trained",
    ),
    hgrn2(
        "hgrn2-key",
        "Key in float32",
        "Where a gate is nearly 1, its log is nearly 0 and 1 - exp(log f) rounds to 0. The same number as a "
        "sigmoid keeps all its digits.",
        key_from_log,
        key_from_sigmoid,
        "The sigmoid: it costs nothing and loses nothing.",
        fixed(torch.tensor([20.0])),
        unit="of the key (float32, gate input 20; 1 means that the whole key is lost)",
        difference=of_each,
        equal_when="computed in float64, gate inputs within 5",
        equal_inputs=fixed(torch.linspace(-5, 5, 21, dtype=torch.float64)),
    ),
    hgrn2(
        "hgrn2-activations",
        "Activations of query and value",
        "The authors' layer has a sigmoid on q and a SiLU on v; FLA has a SiLU on q and nothing on v. The "
        "study's equations print neither.",
        hgrn2_sigmoid,
        hgrn2_silu,
        "FLA's: its kernels are the ones that the study names.",
        qkv,
        equal_when="queries are 1 and values large and positive",
        equal_inputs=lambda g: (torch.ones(1, 16, 1, 4).double(), qkv(g)[1], qkv(g)[2].abs() + 50),
        unsettled="which activations the scaling study trained",
    ),
)
