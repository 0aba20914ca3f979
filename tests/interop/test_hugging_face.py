"""Released architectures, as transformers builds them with random weights, give the same logits here."""

import inspect
import json
import re
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers.models.qwen3_next import modeling_qwen3_next

from linattn_ref.interop import from_transformers
from linattn_ref.interop.architectures import ARCHITECTURES, COMPUTED, LACKING
from linattn_ref.model import LanguageModel, decoding
from tests.support.closeness import assert_close

VOCABULARY = 61
MAMBA: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "vocab_size": VOCABULARY}
MAMBA |= {"layer_norm_epsilon": 0.01}  # so large that another one would be seen
MAMBA2 = MAMBA | {"num_heads": 4, "head_dim": 16, "n_groups": 1, "chunk_size": 16}

LLAMA: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "vocab_size": VOCABULARY,
}
LLAMA |= {"num_attention_heads": 4, "rms_norm_eps": 0.01, "max_position_embeddings": 100}
LLAMA3: dict[str, Any] = {"rope_type": "llama3", "rope_theta": 100.0, "original_max_position_embeddings": 48}
LLAMA3 |= {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
GROUPED = {"num_key_value_heads": 2, "head_dim": 12, "rope_parameters": LLAMA3}
RWKV = {"hidden_size": 32, "num_hidden_layers": 3, "intermediate_size": 48, "vocab_size": VOCABULARY}
XLSTM: dict[str, Any] = {"hidden_size": 128, "num_hidden_layers": 2, "num_heads": 4}
XLSTM |= {"ffn_round_up_to_multiple_of": 24, "gate_soft_cap": 2.0, "output_logit_soft_cap": 3.0}
XLSTM |= {"vocab_size": VOCABULARY, "eps": 0.01, "norm_eps": 0.01}
HYBRID: dict[str, Any] = {"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}
HYBRID |= {"hidden_size": 32, "num_experts_per_tok": 2, "vocab_size": VOCABULARY, "rms_norm_eps": 0.01}
MINIMAX = HYBRID | {"head_dim": 12, "intermediate_size": 48, "num_local_experts": 5, "block_size": 16}
MINIMAX |= {name: 2.5 for name in ("linear_attn_alpha_factor", "full_attn_alpha_factor", "mlp_alpha_factor")}
MINIMAX |= {"layer_types": ["linear_attention", "full_attention"] * 2}
THREE = {"hidden_size": 36, "num_attention_heads": 3, "num_key_value_heads": 1}
QWEN3_NEXT = HYBRID | {"head_dim": 16, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40}
QWEN3_NEXT |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "num_experts": 6}
QWEN3_NEXT |= {"linear_key_head_dim": 8, "linear_value_head_dim": 12}

# name -> type of the model, its sizes and options
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "mamba": ("mamba", MAMBA),
    "mamba, untied, no bias": ("mamba", MAMBA | {"use_conv_bias": False, "tie_word_embeddings": False}),
    "mamba2": ("mamba2", MAMBA2 | {"tie_word_embeddings": True}),
    "mamba2, groups": ("mamba2", MAMBA2 | {"n_groups": 2}),
    "llama": ("llama", LLAMA | {"tie_word_embeddings": True, "rope_theta": 500.0}),
    "llama, grouped": ("llama", LLAMA | GROUPED),
    "rwkv": ("rwkv", RWKV),
    "minimax": ("minimax", MINIMAX),
    "minimax, three heads": ("minimax", MINIMAX | THREE),
    "qwen3_next": ("qwen3_next", QWEN3_NEXT),
    "qwen3_next, a key for every value": ("qwen3_next", QWEN3_NEXT | {"linear_num_key_heads": 4}),
    "xlstm": ("xlstm", XLSTM),
    "xlstm, keys as wide as values": ("xlstm", XLSTM | {"qk_dim_factor": 1.0}),
}
every_case = pytest.mark.parametrize("case", CASES)


@cache
def build(case: str) -> Any:
    """Return a model of transformers whose weights are so large that each of them matters."""
    model_type, options = CASES[case]
    config = transformers.AutoConfig.for_model(model_type, **options)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, x in model.named_parameters():
            noise = torch.randn(x.shape, generator=generator)
            matrix = x.ndim > 1 and not name.endswith("A_log") and "time_mix" not in name
            start = 0 if "igate" in name else x  # at -10 no token would be written
            x.copy_(noise * x.shape[-1] ** -0.5 if matrix else start + 0.3 * noise)
    return model


@pytest.fixture(autouse=True)
def in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Qwen3-Next run in torch: where FLA is installed, transformers takes its kernels, even on a CPU."""
    for name in ("torch_chunk_gated_delta_rule", "causal_conv1d_fn"):
        monkeypatch.setattr(modeling_qwen3_next, name, inspect.unwrap(getattr(modeling_qwen3_next, name)))


def draw_tokens(length: int = 80) -> Tensor:
    return torch.randint(VOCABULARY, (2, length), generator=torch.Generator().manual_seed(2))


def test_every_architecture_is_tried() -> None:
    assert {model_type for model_type, _ in CASES.values()} == ARCHITECTURES.keys()


@every_case
@torch.no_grad()
def test_a_full_pass_gives_their_logits(case: str) -> None:
    theirs, tokens = build(case), draw_tokens()
    want = theirs(tokens).logits
    assert want.std() > 0.3
    assert_close("logits", from_transformers(theirs)(tokens)[0], want, 1e-5)


@every_case
@torch.no_grad()
def test_in_float64_the_logits_agree_to_the_last_digits(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their code goes to float32 in many places, whatever its weights are; here all of these are float64."""
    weights, config, tokens = build(case).state_dict(), build(case).config, draw_tokens()
    build(case)(tokens)  # so that nothing is imported while dtypes have other names
    for name in ("float32", "float"):
        monkeypatch.setattr(torch, name, torch.float64)
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    config._experts_implementation = "eager"  # grouped products have no float64
    with monkeypatch.context() as patch:  # fixed decays are made of whole numbers
        patch.setattr(torch, "arange", partial(torch.arange, dtype=torch.float64))
        theirs = transformers.AutoModelForCausalLM.from_config(config).double().eval()
    theirs.load_state_dict({name: x for name, x in weights.items() if not name.endswith(COMPUTED)}, False)
    want = theirs(tokens).logits
    assert want.dtype == torch.float64
    assert_close("logits", from_transformers(theirs, dtype=torch.float64)(tokens)[0], want, 1e-12)


@every_case
@torch.no_grad()
def test_a_prefill_and_single_steps_give_their_logits(case: str) -> None:
    theirs, tokens = build(case), draw_tokens()
    ours = from_transformers(theirs)
    with decoding(ours):
        y, state = ours(tokens[:, :70])
        outputs = [y]
        for t in range(70, 80):
            y, state = ours(tokens[:, t : t + 1], state)
            outputs.append(y)
    assert_close("logits", torch.cat(outputs, 1), theirs(tokens).logits, 1e-5)


def have_equal_weights(one: LanguageModel, other: LanguageModel) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize(
    "case", ["mamba", "mamba2, groups", "llama, grouped", "minimax", "qwen3_next", "rwkv", "xlstm"]
)
@pytest.mark.parametrize("size", ["1GB", "8KB"])
def test_a_folder_holds_the_same_model(case: str, size: str, tmp_path: Path) -> None:
    theirs = build(case)
    theirs.save_pretrained(tmp_path, max_shard_size=size)
    assert (tmp_path / "model.safetensors.index.json").exists() == (size == "8KB")
    ours, live = from_transformers(tmp_path), from_transformers(theirs)
    assert ours.config == live.config
    assert have_equal_weights(ours, live)
    assert (ours.head.weight is ours.embedding.weight) == theirs.config.tie_word_embeddings


def test_weights_are_copies_in_float32_at_least_or_as_asked_for() -> None:
    theirs = build("mamba")
    ours = from_transformers(theirs)
    with torch.no_grad():
        ours.norm.weight.zero_()
    assert theirs.backbone.norm_f.weight.abs().min() > 0
    half = from_transformers(theirs, dtype=torch.bfloat16)
    assert {x.dtype for x in half.parameters()} == {torch.bfloat16}
    assert all(x.requires_grad for x in half.parameters())


@torch.no_grad()
def test_an_rwkv_that_was_used_and_so_rescaled_has_the_weights_that_it_had() -> None:
    """In evaluation transformers divides matrices by powers of 2, and x after each of so many layers."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model("rwkv", **RWKV | {"rescale_every": 1})
    theirs: Any = transformers.AutoModelForCausalLM.from_config(config)
    tokens = draw_tokens(20)
    theirs.rwkv.embeddings.weight.normal_()
    before = from_transformers(theirs.train())
    used = theirs.eval()(tokens).logits
    after = from_transformers(theirs)
    assert theirs.rwkv.layers_are_rescaled
    assert have_equal_weights(after, before)
    assert_close("logits", after(tokens)[0], used, 1e-3)  # their epsilon meets a smaller x
    assert_close("logits", after(tokens)[0], theirs.train()(tokens, use_cache=False).logits, 1e-5)


# --- what is refused ----------------------------------------------------------------------------------------

REFUSED: list[tuple[str, str, Any]] = [
    ("mamba", "use_bias", True),
    ("mamba", "conv_kernel", 3),
    ("mamba", "expand", 3),
    ("mamba", "hidden_act", "gelu"),
    ("mamba", "time_step_rank", 3),
    ("mamba2", "time_step_limit", [0.0, 0.1]),
    ("llama", "attention_bias", True),
    ("llama", "mlp_bias", True),
    ("llama", "hidden_act", "gelu"),
    ("llama", "attention_dropout", 0.1),
    ("llama", "rope_parameters", {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0}),
    ("llama", "rope_parameters", {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}),
    ("llama, grouped", "rope_parameters", LLAMA3 | {"attention_factor": 2.0}),
    ("minimax", "layer_types", ["full_attention", "linear_attention"] * 2),
    ("minimax", "mlp_beta_factor", 2),
    ("minimax", "sliding_window", 8),
    ("minimax", "hidden_act", "gelu"),
    ("qwen3_next", "mlp_only_layers", [1]),
    ("qwen3_next", "decoder_sparse_step", 2),
    ("qwen3_next", "norm_topk_prob", False),
    ("qwen3_next", "linear_conv_kernel_dim", 3),
    ("qwen3_next", "attention_bias", True),
    ("rwkv", "attention_hidden_size", 64),
    ("rwkv", "layer_norm_epsilon", 1e-6),
    ("rwkv", "tie_word_embeddings", True),
]


@pytest.mark.parametrize(("case", "field", "value"), REFUSED)
def test_a_field_that_ours_cannot_express_is_named(case: str, field: str, value: Any) -> None:
    model_type, options = CASES[case]
    theirs = torch.nn.Module()
    theirs.config = transformers.AutoConfig.for_model(model_type, **options)  # type: ignore[assignment]
    setattr(theirs.config, field, value)
    said = tuple(value) if isinstance(value, list) else value
    with pytest.raises(ValueError, match=rf"config\.{field}: got {re.escape(repr(said))}, expected"):
        from_transformers(theirs)


def test_an_architecture_that_we_do_not_have_is_named() -> None:
    theirs = torch.nn.Module()
    theirs.config = transformers.AutoConfig.for_model("gpt2")  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"model_type: got 'gpt2', expected one of .*'mamba2'"):
        from_transformers(theirs)


@pytest.mark.parametrize(("model_type", "reason"), LACKING.items())
def test_an_architecture_of_which_ours_has_a_part_is_told_what_is_lacking(
    model_type: str, reason: str
) -> None:
    theirs = torch.nn.Module()
    theirs.config = transformers.AutoConfig.for_model(model_type)  # type: ignore[assignment]
    with pytest.raises(ValueError, match=f"model_type: got '{model_type}'.* our model has no {reason}"):
        from_transformers(theirs)


def test_no_tensor_is_dropped_or_missing(tmp_path: Path) -> None:
    build("mamba").save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    good = load_file(file)
    save_file(good | {"backbone.layers.0.mixer.in_proj.bias": torch.zeros(128)}, file)
    with pytest.raises(
        ValueError, match=r"tensors: got \['backbone.layers.0.mixer.in_proj.bias'\], expected none"
    ):
        from_transformers(tmp_path)
    save_file({name: x for name, x in good.items() if "layers.1.mixer.D" not in name}, file)
    with pytest.raises(ValueError, match=r"tensors: got none for \['blocks.1.mixer.D'\]"):
        from_transformers(tmp_path)
    save_file(good | {"backbone.norm_f.weight": torch.ones(31)}, file)
    with pytest.raises(
        ValueError, match=r"backbone.norm_f.weight: got 31 rows, expected 32 for \['norm.weight'\]"
    ):
        from_transformers(tmp_path)
    save_file(good | {"backbone.layers.0.mixer.out_proj.weight": torch.ones(32, 63)}, file)
    with pytest.raises(ValueError, match=r"out.weight: got shape \[32, 63\], expected \[32, 64\]"):
        from_transformers(tmp_path)
    save_file(good | {"lm_head.weight": torch.zeros(VOCABULARY, 32)}, file)
    with pytest.raises(ValueError, match=r"lm_head.weight: got another"):
        from_transformers(tmp_path)


def test_what_is_no_model_and_no_folder_of_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="model_or_folder: got int, expected a model of transformers"):
        from_transformers(3)
    with pytest.raises(ValueError, match="model_type: got 'None', expected one of"):
        from_transformers(torch.nn.Linear(2, 2))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mamba"}))
    with pytest.raises(ValueError, match=r"model_or_folder: got .* without model.safetensors, expected"):
        from_transformers(tmp_path)


def test_without_the_libraries_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build("mamba").save_pretrained(tmp_path)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"needs safetensors: pip install 'linattn-ref\[interop\]'"):
        from_transformers(tmp_path)
