"""Test ``backend="triton"``: the same model on kernels, or a clear error when it is made."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import linattn_kernels
from linattn_ref.mixers import MIXERS
from linattn_ref.model import LanguageModel, ModelConfig
from tests.ops.ladder import BACKWARD, EPS
from tests.support.closeness import err
from tests.support.processes import torchrun

WITHOUT_KERNELS = {
    "rwkv4": "wkv",
    "rwkv6": "rwkv6",
    "rwkv7": "rwkv7",
    "s4d": "lti_ssm",
    "h3": "lti_ssm",
}
WITH_KERNELS = [name for name in MIXERS if name not in WITHOUT_KERNELS]
SIZE = {"d_model": 64, "n_heads": 2, "n_layers": 2, "vocab_size": 32}
OPTIONS = {"mamba2": {"state_size": 16}, "s4d": {"state_size": 16}, "h3": {"state_size": 16}}


def make_model(name: str, backend: str, dtype: torch.dtype = torch.float32) -> LanguageModel:
    """Return a model with the same weights for every backend and dtype."""
    torch.manual_seed(0)
    config = ModelConfig(name, **SIZE, options=OPTIONS.get(name))
    return LanguageModel(replace(config, backend=backend)).to(dtype)  # type: ignore[arg-type]


def logits_and_gradients(model: LanguageModel) -> dict[str, Tensor]:
    """Return logits and the gradient of every parameter."""
    tokens = torch.randint(32, (1, 37), generator=torch.Generator().manual_seed(1))
    logits = model(tokens)[0]
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    parameters = dict(model.named_parameters())
    gradients = torch.autograd.grad(logits, list(parameters.values()), weights.to(logits.dtype))
    return {"logits": logits, **dict(zip(parameters, gradients, strict=True))}


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_model_on_kernels_has_the_logits_and_gradients_of_the_reference(name: str) -> None:
    """Both in float32, held to float64: the kernels' error is at most BACKWARD times the reference's."""
    exact = logits_and_gradients(make_model(name, "reference", torch.float64))
    reference, ours = (logits_and_gradients(make_model(name, backend)) for backend in ("reference", "triton"))
    for part, want in exact.items():
        assert err(ours[part], want) <= BACKWARD * (err(reference[part], want) + EPS), part


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_model_on_kernels_generates_what_the_reference_generates(name: str) -> None:
    """A prompt at once, then token by token from the state."""
    tokens = torch.randint(32, (1, 20), generator=torch.Generator().manual_seed(1))
    logits = []
    for backend in ("reference", "triton"):
        model, outputs, state = make_model(name, backend), [], None
        with torch.no_grad():
            for part in tokens.split([17, 1, 1, 1], 1):
                y, state = model(part, state)
                outputs.append(y)
        logits.append(torch.cat(outputs, 1))
    assert err(logits[1], logits[0]) < 1e-5


@pytest.mark.parametrize("name", WITHOUT_KERNELS)
def test_model_without_a_kernel_is_refused_when_it_is_made(name: str) -> None:
    with pytest.raises(ValueError, match=rf"backend.*{WITHOUT_KERNELS[name]}"):
        make_model(name, "triton")


def test_every_mixer_is_known_to_have_kernels_or_not() -> None:
    assert set(WITHOUT_KERNELS) <= set(MIXERS)


# --- several processes -------------------------------------------------------------------------------------

PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from linattn_kernels import chunk_linear_attention

class Mixer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkvg = torch.nn.Linear(16, 64)
    def forward(self, x):
        q, k, v, g = self.qkvg(x).unsqueeze(2).chunk(4, -1)
        return chunk_linear_attention(q, k, v, -g.square(), chunk_size=16)[0]

torch.manual_seed(0)
model, x = Mixer(), torch.randn(2, 20, 16)
dist.init_process_group("gloo")
rank = dist.get_rank()
ddp = DistributedDataParallel(model)
ddp(x[rank : rank + 1]).square().mean().backward()
got = model.qkvg.weight.grad.clone()
model.zero_grad()
model(x).square().mean().backward()
torch.testing.assert_close(got, model.qkvg.weight.grad, rtol=1e-5, atol=1e-6)
Path(sys.argv[1] + str(rank)).write_text("equal")
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_have_the_gradient_of_one(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(folder=str(Path(linattn_kernels.__file__).parents[1])))
    torchrun(str(program), str(tmp_path / "rank"))
    assert [(tmp_path / f"rank{rank}").read_text() for rank in (0, 1)] == ["equal", "equal"]
