"""What keeps its initial values and does not decay is decided by module and name, not by the tensor."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from linattn_ref.mixers import MIXERS, find_spared_parameters, find_weight_matrices
from linattn_ref.model import LanguageModel, ModelConfig
from linattn_ref.training.trainer import group_parameters

SPARED = {  # of a layer of each mixer; all others have none
    "hgrn2": {"shared.logits"},
    "rwkv4": {"blocks.0.mixer.shift"},
    "rwkv6": {"blocks.0.mixer.shift", "blocks.0.mixer.bonus"},
    "rwkv7": {"blocks.0.mixer.shift", "blocks.0.mixer.bonus"},
    "s4d": {f"blocks.0.mixer.ssm.{name}" for name in ("log_real", "imaginary", "C")},
    "h3": {f"blocks.0.mixer.{name}" for name in ("filter", "ssm.log_real", "ssm.imaginary", "ssm.C")},
    "mamba": {"blocks.0.mixer.conv.weight", "blocks.0.mixer.log_A"},
    "mamba2": {"blocks.0.mixer.conv.weight"},
    "delta_net": {"blocks.0.mixer.conv.weight"},
    "gated_delta_net": {"blocks.0.mixer.conv.weight"},
    "kda": {"blocks.0.mixer.conv.weight"},
}


def build(name: str) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(ModelConfig(name, d_model=16, n_layers=1, n_heads=2, vocab_size=16))


def copied(model: LanguageModel) -> LanguageModel:
    return copy.deepcopy(model)


def tied(model: LanguageModel) -> LanguageModel:
    """Tie the embeddings again: ``to_empty`` and assignment give the two modules a tensor each."""
    model.head.weight = model.embedding.weight
    return model


def laid_out_anew(model: LanguageModel) -> LanguageModel:
    with torch.device("meta"):
        empty = LanguageModel(model.config)
    empty.to_empty(device="cpu").load_state_dict(model.state_dict())
    return tied(empty)


def assigned(model: LanguageModel) -> LanguageModel:
    with torch.device("meta"):
        empty = LanguageModel(model.config)
    weights = {name: x.detach().clone() for name, x in model.state_dict().items()}
    empty.load_state_dict(weights, assign=True)
    return tied(empty)


def decayed(model: torch.nn.Module) -> set[str]:
    """Return the names of what the optimizer lets decay."""
    decays = {id(p) for p in group_parameters(model, 0.1)[0]["params"]}
    return {name for name, p in model.named_parameters() if id(p) in decays}


@pytest.mark.parametrize("name", MIXERS)
def test_what_is_spared_is_what_the_modules_declare(name: str) -> None:
    model = build(name)
    assert find_spared_parameters(model) == SPARED.get(name, set())
    assert decayed(model) == {
        path for path, p in model.named_parameters() if p.ndim >= 2 and path not in SPARED.get(name, set())
    }


@pytest.mark.parametrize("change", [copied, laid_out_anew, assigned])
@pytest.mark.parametrize("name", MIXERS)
def test_a_copy_decays_what_the_model_does_and_starts_anew_with_the_same_values(name: str, change) -> None:
    model = build(name)
    other = change(model)
    assert decayed(other) == decayed(model)
    torch.manual_seed(1)
    model.initialise()
    torch.manual_seed(1)
    other.initialise()
    for path, x in other.named_parameters():
        assert torch.equal(x, dict(model.named_parameters())[path]), path


@pytest.mark.parametrize("name", ["mamba", "hgrn2", "rwkv6"])
def test_a_compiled_or_wrapped_model_decays_the_same(name: str) -> None:
    model = build(name)
    bare = decayed(model)
    for wrapped in (torch.compile(model, backend="eager"), torch.nn.Sequential(model)):
        assert {path.partition(".")[2] for path in decayed(wrapped)} == bare


def test_a_sharded_model_decays_the_same(tmp_path) -> None:
    """FSDP2 puts DTensors in the place of parameters, and classes of its own in the place of modules'."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        for name in MIXERS:
            model = build(name)
            want = decayed(model), find_spared_parameters(model)
            for block in model.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
            assert (decayed(model), find_spared_parameters(model)) == want, name
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("name", SPARED)
def test_matrices_and_spared_parameters_do_not_overlap(name: str) -> None:
    model = build(name)
    assert not find_spared_parameters(model) & find_weight_matrices(model).keys()
