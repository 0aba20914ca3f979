"""Count what a model costs: parameters, FLOPs, bytes of state; of the real configuration, and in closed form.

One multiply-add is two FLOPs. Forward and backward together are three times the forward pass, since each
matrix product has two gradients of its own size. Norms, activations and softmax are not counted; the
paper's closed form adds rotary positions and the product in the gated MLP, its term 5 / (18 d).
"""

from itertools import product

import torch
from torch import nn

from linattn_ref.config import PAPER_ARCHITECTURES, ModelConfig
from linattn_ref.costs import paper as paper_costs
from linattn_ref.mixers import Mixer, mixer_class
from linattn_ref.model import Experts, LanguageModel
from linattn_ref.ops.validation import require


def n_parameters(config: ModelConfig, embedding: bool = True) -> int:
    """Count the parameters of a model as it would be built; no memory is needed.

    Args:
        config: the model.
        embedding: whether the embedding and the output layer count (once if tied); default True.

    Returns:
        The number of parameters.

    Source:
        none: a count of the real model. ``costs.paper.n_parameters`` has the closed form.

    Example:
        >>> config = ModelConfig("tnl", d_model=64, n_layers=2, vocab_size=100)
        >>> n_parameters(config), n_parameters(config, embedding=False)
        (117312, 110912)
    """
    model = _on_meta(config)
    total = sum(p.numel() for p in model.parameters())
    outside = model.embedding.weight.numel() * (1 if config.tie_embeddings else 2)
    return total if embedding else total - outside


def _on_meta(config: ModelConfig) -> LanguageModel:
    """Return the model without its numbers."""
    with torch.device("meta"):
        return LanguageModel(config)


def flops_per_token(config: ModelConfig, seq_len: int, embedding: bool = False) -> float:
    """Return the FLOPs per token, forward and backward, in the closed form of the scaling study.

        72 l d^2 (1 + ...),  for softmax attention 72 l d^2 (1 + n / (6 d) + 5 / (18 d))

    It assumes a gated MLP of width 8 d / 3 and blocks of d / H tokens, and counts the whole n x n table of
    softmax scores, the masked half included: see ``costs.paper``. A hybrid costs what its blocks cost.

    Args:
        config: the model; its mixer is one of the paper's four.
        seq_len: n, tokens of a sequence.
        embedding: whether embedding and output layer are added, 12 d v; default False.

    Returns:
        FLOPs per token; one multiply-add is two.

    Raises:
        ValueError: for a mixer that the paper's Table 1 does not have, blocks without a gated MLP or with
            experts, grouped heads; ``flops_exact`` counts every model.

    Source:
        arXiv 2406.16690, Table 1.

    Example:
        >>> from linattn_ref.config import paper_config
        >>> f"{flops_per_token(paper_config('llama', '1B'), 8192):.3e}"
        '1.027e+10'
    """
    architectures = {mixer: name for name, mixer in PAPER_ARCHITECTURES.items()}
    if config.mixer not in architectures:
        raise ValueError(
            f"config.mixer: got {config.mixer!r}, expected one of {sorted(architectures)} "
            "(else use flops_exact)"
        )
    require(config.mlp == "gated", "config.mlp", repr(config.mlp), "'gated' (else use flops_exact)")
    require(config.n_experts == 0, "config.n_experts", str(config.n_experts), "0 (else use flops_exact)")
    l, d, h = config.n_layers, config.d_model, config.n_heads
    usual = {"n_kv_heads": h, "head_dim": d // h, "gated": False, "form": "tnl"}
    for own, (name, value) in product(_list_layers(config), usual.items()):
        came = getattr(own.options, name, value) or value
        require(came == value, f"config.options.{name}", repr(came), f"{value!r} (else use flops_exact)")
    n_softmax = sum(own is not config for own in _list_layers(config))

    def of(mixer: str, n_layers: int) -> float:
        """Return the cost of ``n_layers`` blocks with that mixer."""
        return paper_costs.flops_per_token(architectures[mixer], seq_len, n_layers, d, h)

    per_token = of(config.mixer, l - n_softmax) + (of("softmax", n_softmax) if n_softmax else 0)
    return per_token + (12 * d * config.vocab_size if embedding else 0)


def flops_exact(config: ModelConfig, seq_len: int) -> int:
    """Count the matmul FLOPs of a sequence, forward and backward, from the real widths, as torch counts them.

    The output layer is included, the embedding look-up is free. (At one token torch counts less: there it
    takes outer products and products with one row to be no matrix products. Decays per channel, triangular
    systems, scans and cosFormer2's positions are no matrix products either; each mixer says what it counts.)

    Args:
        config: the model, with any mixer.
        seq_len: T, tokens of the sequence, at least 1.

    Returns:
        FLOPs of the whole sequence; one multiply-add is two.

    Raises:
        ValueError: for a ``seq_len`` below 1.

    Source:
        none: ours, held to torch's ``FlopCounterMode``.

    Example:
        >>> flops_exact(ModelConfig("tnl", d_model=64, n_layers=2, vocab_size=100), seq_len=128)
        105578496
    """
    if seq_len < 1:
        raise ValueError(f"seq_len: got {seq_len}, expected at least 1")
    model, T = _on_meta(config), seq_len
    projections = sum(layer.weight.numel() for layer in model.modules() if isinstance(layer, nn.Linear))
    for layer in model.modules():
        if isinstance(layer, Experts):  # a token meets the chosen ones alone
            projections += config.experts_per_token * (layer.into[0].numel() + layer.out[0].numel())
    mixing = sum(mixer_class(own.mixer).mixing_flops(own, T) for own in _list_layers(config))
    mixing += mixer_class(config.mixer).front_flops(config, T)
    return 3 * (2 * T * projections + mixing)


def state_bytes(
    config: ModelConfig, seq_len: int, batch_size: int = 1, dtype: torch.dtype = torch.bfloat16
) -> int:
    """Return the bytes that decoding carries: a KV cache in ``dtype``, or states in float32 at least.

    Args:
        config: the model, with any mixer.
        seq_len: tokens read so far, at least 0.
        batch_size: sequences; default 1.
        dtype: of the activations; default bfloat16.

    Returns:
        Bytes of all layers; the count of tokens is left out.

    Raises:
        ValueError: for a ``seq_len`` below 0.

    Source:
        none: a count of the real state.

    Example:
        >>> for mixer in ("softmax", "tnl"):
        ...     print([state_bytes(ModelConfig(mixer, d_model=64), seq_len) for seq_len in (100, 1000)])
        [51200, 512000]
        [8192, 8192]
    """
    if seq_len < 0:
        raise ValueError(f"seq_len: got {seq_len}, expected at least 0")
    at_least_float32 = torch.promote_types(dtype, torch.float32)

    def of(mixer: type[Mixer], numbers: int) -> int:
        """Return the bytes of so many numbers."""
        return numbers * (at_least_float32 if mixer.state_in_float32 else dtype).itemsize

    front = of(mixer_class(config.mixer), mixer_class(config.mixer).front_numel(config))
    if config.mlp == "channel_mix":  # the last token of every block
        front += config.n_layers * config.d_model * at_least_float32.itemsize
    layers = ((mixer_class(own.mixer), own) for own in _list_layers(config))
    return batch_size * (front + sum(of(mixer, mixer.state_numel(own, seq_len)) for mixer, own in layers))


def _list_layers(config: ModelConfig) -> list[ModelConfig]:
    """Return the configuration of the mixer in every block."""
    return [config.of_layer(layer) for layer in range(config.n_layers)]
