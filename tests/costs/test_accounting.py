"""What a model costs, held against the model itself, torch's own counter and the numbers of the paper."""

from itertools import product
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from linattn_ref import ops
from linattn_ref.config import PAPER_ARCHITECTURES
from linattn_ref.costs.accounting import flops_exact, flops_per_token, n_parameters, state_bytes
from linattn_ref.mixers import MIXERS
from linattn_ref.model import LanguageModel, ModelConfig, paper_config
from linattn_ref.ops.chunks import SUB_CHUNK
from linattn_ref.ops.feature_maps import FEATURE_MAPS

TRIANGULAR = ("delta_net", "gated_delta_net", "kda", "rwkv7")
NO_PRODUCTS = ("mamba", *TRIANGULAR, "rwkv4", "s4d", "h3")  # at one token
chunk_linear_attention, chunk_delta_rule = ops.chunk_linear_attention, ops.chunk_delta_rule
chunk_rwkv7 = ops.chunk_rwkv7
BASE: dict[str, Any] = {"d_model": 24, "n_layers": 2, "n_heads": 3, "vocab_size": 32, "d_ff": 40}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "linear": [
        {"feature_map": phi, "normaliser": normaliser}
        for phi, normaliser in product(FEATURE_MAPS, ("denominator", "norm"))
    ],
    "softmax": [
        {},
        {"n_kv_heads": 1, "head_dim": 10},
        {"rope_width": 4, "head_norm": True, "gated": True},
        {"n_experts": 4, "experts_per_token": 2, "shared_ff": 16},
    ],
    "tnl": [{}, {"form": "minimax", "decay": "minimax", "head_dim": 10}],
    "gated_delta_net": [{}, {"n_value_heads": 4, "n_key_heads": 2, "key_dim": 6, "value_dim": 10}],
    "rwkv4": [{}, {"mlp": "channel_mix", "norm": "layer"}],
    "mamba": [{}, {"mlp": "none", "conv_bias": True}],
    "mamba2": [{}, {"n_groups": 3, "conv_bias": True}],
}
CASES = [(name, overrides) for name in MIXERS for overrides in OPTIONS.get(name, [{}])]
every_case = pytest.mark.parametrize(
    ("name", "overrides"),
    CASES,
    ids=["-".join([name, *map(str, overrides.values())]) for name, overrides in CASES],
)
every_mixer = pytest.mark.parametrize("name", MIXERS)


def config_of(name: str, overrides: dict[str, Any] | None = None) -> ModelConfig:
    overrides = overrides or {}
    sizes = {field: value for field, value in overrides.items() if field in ModelConfig.__annotations__}
    options = {field: value for field, value in overrides.items() if field not in sizes}
    return ModelConfig(name, **BASE | sizes, options=options)


def counted_by_torch(config: ModelConfig, seq_len: int) -> int:
    """Count forward and backward; three times the forward pass where torch counts the backward otherwise.

    What is no product of matrices is left out or replaced: convolutions by FFT, cosFormer2's front among
    them, and decays per channel, which are element-wise. The gradient of a triangular system has a product of
    its own that torch counts, and a solution that it does not.
    """
    tokens = torch.randint(config.vocab_size, (1, seq_len))
    left_out: list[Tensor] = []

    def linear(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor | None = None, **others: Any) -> Any:
        if log_decay is not None and log_decay.ndim == 4:
            left_out.append(log_decay)
            log_decay = None
        return chunk_linear_attention(q, k, v, log_decay, **others)

    def delta(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Any = None, **others: Any) -> Any:
        if log_decay is not None and log_decay.ndim == 4:  # by shorter chunks
            log_decay, others = None, others | {"chunk_size": SUB_CHUNK}
        return chunk_delta_rule(q, k, v, beta, log_decay, **others)

    replaced: dict[str, Any] = {
        "chunk_linear_attention": linear,
        "chunk_delta_rule": delta,
        "chunk_rwkv7": lambda q, k, v, removal, rate, log_decay, **others: chunk_rwkv7(
            q, k, v, removal, rate, chunk_size=SUB_CHUNK, **others
        ),
        "chunk_rwkv6": lambda q, k, v, bonus, *decay, **others: linear(q, k, v, *decay, **others),
        "convolution_lti_ssm": lambda u, delta, A, B, C, D, **others: (u * D, torch.zeros_like(A)),
    }
    with patch.multiple(ops, **replaced):
        model = LanguageModel(config)
        model.front = None
        with FlopCounterMode(display=False) as counter:
            loss = model(tokens)[0].sum()
            forward = bool(left_out) or config.mixer in TRIANGULAR
            if not forward:
                loss.backward()
    return counter.get_total_flops() * (3 if forward else 1)


# --- FLOPs -------------------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("seq_len", [2, 64, 150], ids=lambda n: f"T={n}")
def test_flops_exact_is_what_torch_counts(name: str, overrides: dict[str, Any], seq_len: int) -> None:
    config = config_of(name, overrides)
    front = 3 * MIXERS[name].front_flops(config, seq_len)
    assert flops_exact(config, seq_len) == counted_by_torch(config, seq_len) + front


@every_mixer
@pytest.mark.parametrize("seq_len", [63, 65, 128], ids=lambda n: f"T={n}")
def test_flops_exact_fills_the_last_chunk_as_the_op_does(name: str, seq_len: int) -> None:
    config = config_of(name)
    front = 3 * MIXERS[name].front_flops(config, seq_len)
    assert flops_exact(config, seq_len) == counted_by_torch(config, seq_len) + front


@every_mixer
def test_of_a_single_token_torch_leaves_out_products_of_one_row(name: str) -> None:
    config = config_of(name)
    assert counted_by_torch(config, 1) <= flops_exact(config, 1)
    assert name in NO_PRODUCTS or counted_by_torch(config, 1) < flops_exact(config, 1)


@every_mixer
def test_flops_exact_follows_depth_width_and_vocabulary(name: str) -> None:
    for change in ({"n_layers": 3}, {"d_model": 36}, {"vocab_size": 50}, {"d_ff": 56}, {"n_heads": 2}):
        config = config_of(name, change)
        front = 3 * MIXERS[name].front_flops(config, 70)
        assert flops_exact(config, 70) == counted_by_torch(config, 70) + front, change


@pytest.mark.parametrize("d_model", [96, 384])
def test_closed_form_exceeds_the_exact_count_by_its_norm_term_alone(d_model: int) -> None:
    """With d_ff = 8 d / 3, matrix products are 72 l d^2 (1 + n / (6 d)); 5 / (18 d) is none."""
    config = ModelConfig(d_model=d_model, n_layers=3, n_heads=4, vocab_size=32, d_ff=8 * d_model // 3)
    l, n = config.n_layers, 512
    norms = 72 * l * d_model**2 * 5 / (18 * d_model)
    output_layer = 6 * d_model * config.vocab_size
    closed = flops_per_token(config, n) - norms + output_layer
    assert closed == pytest.approx(flops_exact(config, n) / n, rel=1e-12)


def test_closed_form_counts_embedding_and_output_layer_alike() -> None:
    config = paper_config("llama", "70M")
    difference = flops_per_token(config, 8192, embedding=True) - flops_per_token(config, 8192)
    assert difference == pytest.approx(2 * 6 * 512 * 100_280, rel=1e-12)


@pytest.mark.parametrize("name", [name for name in MIXERS if name not in PAPER_ARCHITECTURES.values()])
def test_closed_form_refuses_a_mixer_that_the_paper_has_no_row_for(name: str) -> None:
    with pytest.raises(ValueError, match=rf"config\.mixer: got '{name}'.*flops_exact"):
        flops_per_token(config_of(name), 64)


def test_closed_form_refuses_blocks_without_a_gated_mlp_and_grouped_heads() -> None:
    with pytest.raises(ValueError, match=r"config\.mlp: got 'none', expected 'gated'"):
        flops_per_token(config_of("softmax", {"mlp": "none"}), 64)
    with pytest.raises(ValueError, match=r"config\.options\.n_kv_heads: got 1, expected 3"):
        flops_per_token(config_of("softmax", {"n_kv_heads": 1}), 64)
    whole = config_of("softmax", {"n_kv_heads": 3, "head_dim": 8})
    assert flops_per_token(whole, 64) == flops_per_token(config_of("softmax"), 64)


# --- parameters --------------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_n_parameters_is_the_count_of_the_real_model(
    name: str, overrides: dict[str, Any], tied: bool
) -> None:
    config = config_of(name, overrides | {"tie_embeddings": tied})
    model = LanguageModel(config)
    counts = {id(p): p.numel() for p in model.parameters()}
    outside = {id(model.embedding.weight), id(model.head.weight)}
    assert n_parameters(config) == sum(counts.values())
    assert n_parameters(config, embedding=False) == sum(n for p, n in counts.items() if p not in outside)
    assert len(outside) == 2 - tied


def test_n_parameters_of_a_large_model_needs_no_memory() -> None:
    assert n_parameters(paper_config("llama", "7B")) > 6.8e9


# --- the paper's sizes (see test_paper_costs.py) -----------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "choice"), [("architecture", ("gpt", "70M")), ("size", ("llama", "2B"))]
)
def test_an_unknown_architecture_or_size_is_named(argument: str, choice: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=f"{argument}: got .* expected one of"):
        paper_config(*choice)


# --- state -------------------------------------------------------------------------------------------------


def decode_state(config: ModelConfig, length: int, batch_size: int, dtype: torch.dtype) -> list[Tensor]:
    """Prefill all tokens but two, then two single steps."""
    model = LanguageModel(config).to(dtype)
    tokens = torch.randint(config.vocab_size, (batch_size, length))
    with torch.no_grad():
        _, state = model(tokens[:, :-2])
        for t in (length - 2, length - 1):
            _, state = model(tokens[:, t : t + 1], state)
    return tensors_in(state)


def tensors_in(state: Any) -> list[Tensor]:
    if isinstance(state, tuple):
        return [x for part in state for x in tensors_in(part)]
    return [state] if isinstance(state, Tensor) else []


@every_case
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_state_bytes_are_those_of_the_decoding_state(
    name: str, overrides: dict[str, Any], dtype: torch.dtype
) -> None:
    config = config_of(name, overrides)
    for length, batch_size in ((5, 1), (70, 2)):
        real = sum(
            part.numel() * part.element_size() for part in decode_state(config, length, batch_size, dtype)
        )
        assert state_bytes(config, length, batch_size, dtype) == real


@every_case
def test_only_a_cache_grows_with_the_sequence(name: str, overrides: dict[str, Any]) -> None:
    config = config_of(name, overrides)
    sizes = [state_bytes(config, length) for length in (1, 2, 1000)]
    if name == "softmax":
        assert sizes == [sizes[0], 2 * sizes[0], 1000 * sizes[0]]
    else:
        assert sizes == [sizes[0]] * 3


def test_the_cache_of_the_largest_model_at_8192_tokens_is_four_gibibytes_in_half_precision() -> None:
    assert state_bytes(paper_config("llama", "7B"), 8192) == 4 * 2**30


# --- wrong arguments ---------------------------------------------------------------------------------------


def test_counts_refuse_impossible_lengths() -> None:
    config = ModelConfig("linear", d_model=32, n_heads=2)
    with pytest.raises(ValueError, match="seq_len: got 0"):
        flops_exact(config, 0)
    with pytest.raises(ValueError, match="seq_len: got -5"):
        state_bytes(config, -5)
