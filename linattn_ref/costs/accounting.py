"""What a model costs: parameters, FLOPs, bytes of state. Counts of the real configuration, and closed forms.

One multiply-add is two FLOPs. Forward and backward together are three times the forward pass, since each
matrix product has two gradients of its own size. Norms, activations and softmax are not counted; the
paper's closed form adds rotary positions and the product in the gated MLP, its term 5 / (18 d).
"""

import torch
from torch import nn

from linattn_ref.config import PAPER_ARCHITECTURES, ModelConfig
from linattn_ref.costs import paper as paper_costs
from linattn_ref.mixers import Mixer, mixer_of
from linattn_ref.model import LanguageModel


def n_parameters(config: ModelConfig, embedding: bool = True) -> int:
    """Parameters of the model as built; ``embedding=False`` leaves out embedding and output layer."""
    model = _on_meta(config)
    total = sum(p.numel() for p in model.parameters())
    outside = model.embedding.weight.numel() * (1 if config.tie_embeddings else 2)
    return total if embedding else total - outside


def _on_meta(config: ModelConfig) -> LanguageModel:
    """The model without its numbers."""
    with torch.device("meta"):
        return LanguageModel(config)


def flops_per_token(config: ModelConfig, seq_len: int, embedding: bool = False) -> float:
    """Forward and backward FLOPs per token in the paper's closed form (arXiv 2406.16690, Table 1).

    It assumes a gated MLP of width 8 d / 3 and blocks of d / H tokens, and counts the whole n x n table of
    softmax scores, the masked half included: see ``paper_costs``. ``embedding`` adds 12 d v. A hybrid costs
    what its blocks cost.

    Raises:
        ValueError: for a mixer that the paper's Table 1 does not have; ``flops_exact`` counts every mixer.
    """
    architectures = {mixer: name for name, mixer in PAPER_ARCHITECTURES.items()}
    if config.mixer not in architectures:
        raise ValueError(
            f"config.mixer: got {config.mixer!r}, expected one of {sorted(architectures)} "
            "(else use flops_exact)"
        )
    l, d, h = config.n_layers, config.d_model, config.n_heads
    n_softmax = sum(own is not config for own in _layers(config))

    def of(mixer: str, n_layers: int) -> float:
        return paper_costs.flops_per_token(architectures[mixer], seq_len, n_layers, d, h)

    per_token = of(config.mixer, l - n_softmax) + (of("softmax", n_softmax) if n_softmax else 0)
    return per_token + (12 * d * config.vocab_size if embedding else 0)


def flops_exact(config: ModelConfig, seq_len: int) -> int:
    """Matmul FLOPs of forward and backward on one sequence, from the real widths, as torch counts them.

    The output layer is included, the embedding look-up is free. (At one token torch counts less: there it
    takes outer products and products with one row to be no matrix products. Decays per channel, triangular
    systems, scans and cosFormer2's positions are no matrix products either; each mixer says what it counts.)
    """
    if seq_len < 1:
        raise ValueError(f"seq_len: got {seq_len}, expected at least 1")
    model, T = _on_meta(config), seq_len
    projections = sum(layer.weight.numel() for layer in model.modules() if isinstance(layer, nn.Linear))
    mixing = sum(mixer_of(own).mixing_flops(own, T) for own in _layers(config))
    mixing += mixer_of(config).front_flops(config, T)
    return 3 * (2 * T * projections + mixing)


def state_bytes(
    config: ModelConfig, seq_len: int, batch_size: int = 1, dtype: torch.dtype = torch.bfloat16
) -> int:
    """Bytes that decoding carries after ``seq_len`` tokens: a KV cache in ``dtype``, or states in float32."""
    if seq_len < 0:
        raise ValueError(f"seq_len: got {seq_len}, expected at least 0")
    wide = torch.promote_types(dtype, torch.float32)

    def of(mixer: type[Mixer], numbers: int) -> int:
        return numbers * (wide if mixer.state_in_float32 else dtype).itemsize

    front = of(mixer_of(config), mixer_of(config).front_numel(config))
    layers = ((mixer_of(own), own) for own in _layers(config))
    return batch_size * (front + sum(of(mixer, mixer.state_numel(own, seq_len)) for mixer, own in layers))


def _layers(config: ModelConfig) -> list[ModelConfig]:
    return [config.of_layer(layer) for layer in range(config.n_layers)]
