"""The one description of a model, and the sizes of the paper."""

from dataclasses import dataclass, replace
from typing import Literal

from linattn_ref.ops.feature_maps import FEATURE_MAPS

Positions = Literal["rope", "sinusoidal", "none"]
Normaliser = Literal["denominator", "norm"]


@dataclass(frozen=True)
class ModelConfig:
    """Width, depth and token mixer of a decoder-only language model.

    Args:
        mixer: a name in ``linattn_ref.mixers.MIXERS``.
        d_model: width D, a multiple of ``n_heads``; the head width is K = V = D / H.
        n_layers, n_heads: depth and heads H.
        vocab_size: 256 for bytes.
        softmax_every: of a hybrid: blocks number n, 2 n, ... have softmax attention with rotary positions
            instead; 0: none has.
        d_ff: hidden width of the gated MLP; 0 means 8 D / 3, rounded up to a multiple of 32.
        positions: "rope" turns queries and keys, "sinusoidal" is added to the embeddings, "none"; empty is
            the default of the mixer (softmax: rope, linear: sinusoidal, cosformer: none).
        feature_map: a name in ``FEATURE_MAPS``, for the linear mixer.
        normaliser: the linear mixer divides by the sum of its scores ("denominator") or normalises the
            output of each head ("norm", as later models do).
        max_length: cosFormer's M; longer sequences raise.
        tnl_decay: "code", "printed", or, to compare, "none" or "data", see ``mixers.tnl``.
        state_size: numbers N in the state of a channel (Mamba, S4D, H3), or of a head's keys (Mamba-2); 0 is
            as published.
        ssm_init: how A of S4D and H3 starts, "lin", "inv" or "real", see ``mixers.s4d``.
        hold: how Mamba discretises B, "euler" or "exact", see ``ops.associative_selective_scan``.
        beta_max: largest write strength of the delta rule, 1 or 2.
        rope_base: see ``ops.rotate``.
        norm_eps: epsilon of every RMSNorm.
        activation: of the gated MLP: "silu" (SwiGLU) or "none" (SGLU).
        tie_embeddings: the output layer is the transposed embedding.
        backend: "reference" (this package) or "triton" (``linattn_kernels``).
    """

    mixer: str = "softmax"
    d_model: int = 128
    n_layers: int = 2
    n_heads: int = 4
    vocab_size: int = 256
    softmax_every: int = 0
    d_ff: int = 0
    positions: Positions | Literal[""] = ""
    feature_map: str = "elu_plus_one"
    normaliser: Normaliser = "denominator"
    max_length: int = 8192
    tnl_decay: Literal["code", "printed", "none", "data"] = "code"
    state_size: int = 0
    ssm_init: Literal["lin", "inv", "real"] = "lin"
    hold: Literal["euler", "exact"] = "euler"
    beta_max: float = 1.0
    rope_base: float = 10_000.0
    norm_eps: float = 1e-6
    activation: Literal["silu", "none"] = "silu"
    tie_embeddings: bool = True
    backend: Literal["reference", "triton"] = "reference"

    def __post_init__(self) -> None:
        for name in ("d_model", "n_layers", "n_heads", "vocab_size", "max_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: got {getattr(self, name)}, expected at least 1")
        for name in ("d_ff", "state_size", "softmax_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: got {getattr(self, name)}, expected at least 0")
        if not 0 < self.beta_max <= 2:
            raise ValueError(f"beta_max: got {self.beta_max}, expected above 0 and at most 2")
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model: got {self.d_model}, expected a multiple of n_heads = {self.n_heads}")
        if self.feature_map not in FEATURE_MAPS:
            raise ValueError(f"feature_map: got {self.feature_map!r}, expected one of {sorted(FEATURE_MAPS)}")
        allowed: dict[str, tuple[str, ...]] = {
            "positions": ("rope", "sinusoidal", "none", ""),
            "normaliser": ("denominator", "norm"),
            "activation": ("silu", "none"),
            "tnl_decay": ("code", "printed", "none", "data"),
            "ssm_init": ("lin", "inv", "real"),
            "hold": ("euler", "exact"),
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ValueError(f"{name}: got {getattr(self, name)!r}, expected one of {values}")

    @property
    def head_dim(self) -> int:
        return self.d_model // self.n_heads

    def of_layer(self, layer: int) -> "ModelConfig":
        """The configuration whose mixer block 0..L-1 has."""
        if self.softmax_every and (layer + 1) % self.softmax_every == 0:
            return replace(self, mixer="softmax", positions="rope", softmax_every=0)
        return self

    @property
    def ff_width(self) -> int:
        return self.d_ff or 32 * -(-8 * self.d_model // (3 * 32))


# Table 7 of arXiv 2406.16690: layers, width, heads, hidden width of the gated MLP. The 1B row is printed with
# 16 heads and 5632, its parameters and FLOPs are those of 12 and 4096; heads are width / 128 throughout.
PAPER_SIZES: dict[str, tuple[int, int, int, int]] = {
    "70M": (6, 512, 4, 1536),
    "160M": (12, 768, 6, 2048),
    "410M": (26, 1024, 8, 2816),
    "1B": (32, 1536, 12, 4096),
    "3B": (35, 2560, 20, 6912),
    "7B": (32, 4096, 32, 11008),
}
PAPER_ARCHITECTURES = {"llama": "softmax", "tnl": "tnl", "hgrn2": "hgrn2", "cosformer2": "cosformer2"}
GATED_AT_410M = 25  # layers of TNL and cosFormer2 there, whose output gates are parameters too


def paper_config(architecture: str, size: str) -> ModelConfig:
    """The configuration of arXiv 2406.16690 (Table 7, 100,280 tokens), reconciled as noted above.

    LLaMA's MLP is SwiGLU, that of the others has no activation (equations 10, 14 and 18).
    """
    if architecture not in PAPER_ARCHITECTURES:
        raise ValueError(f"architecture: got {architecture!r}, expected one of {sorted(PAPER_ARCHITECTURES)}")
    if size not in PAPER_SIZES:
        raise ValueError(f"size: got {size!r}, expected one of {list(PAPER_SIZES)}")
    n_layers, d_model, n_heads, d_ff = PAPER_SIZES[size]
    if size == "410M" and architecture in ("tnl", "cosformer2"):
        n_layers = GATED_AT_410M
    return ModelConfig(
        PAPER_ARCHITECTURES[architecture],
        d_model,
        n_layers,
        n_heads,
        vocab_size=100_280,
        d_ff=d_ff,
        activation="silu" if architecture == "llama" else "none",
    )
