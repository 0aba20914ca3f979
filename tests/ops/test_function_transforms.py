"""Every form and every step under ``torch.func``: vmap over samples, and the gradient of each sample."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import grad, jvp, vmap

from linattn_ref.ops import Form, chunk_delta_rule, chunk_linear_attention, cos_reweight
from tests.ops.every_form import EXACT, rows, steps
from tests.ops.ladder import Call, call_of, make_inputs, step_call_of
from tests.ops.ladder_cases import Case, Tensors
from tests.support.closeness import assert_close

SAMPLES = 3


def samples_of(case: Case) -> list[Tensors]:
    """Return the leaves of several random problems of one case."""
    generator = case.generator("samples")
    return [make_inputs(case, generator) for _ in range(SAMPLES)]


def stacked(samples: list[Tensors]) -> Tensors:
    """Return the leaves of all samples with a leading dimension for the sample."""
    return {name: torch.stack([x[name] for x in samples]) for name in samples[0]}


def loss_of(call: Call) -> Callable[[Tensors], Tensor]:
    """Return the sum of squares of all results of a call."""
    return lambda x: sum((y.square().sum() for y in call(x).values()), torch.tensor(0.0))


def check_samples(call: Call, case: Case, label: str) -> None:
    """Compare vmap, and vmap of the gradient, with one call for each sample."""
    samples = samples_of(case)
    results, gradients = vmap(call)(stacked(samples)), vmap(grad(loss_of(call)))(stacked(samples))
    for i, x in enumerate(samples):
        for name, want in call(x).items():
            assert_close(f"{label}: {name} of sample {i}", results[name][i], want, EXACT)
        for name, want in grad(loss_of(call))(x).items():
            assert_close(f"{label}: gradient of {name} of sample {i}", gradients[name][i], want, EXACT)


@pytest.mark.parametrize(("form", "case"), rows(T=9, B=1, start=True, chunk_size=4))
def test_form_maps_over_samples_and_gives_each_ones_gradient(form: Form, case: Case) -> None:
    check_samples(call_of(form, case), case, form.form)


@pytest.mark.parametrize("case", steps(T=1, B=1, start=True))
def test_step_maps_over_samples_and_gives_each_ones_gradient(case: Case) -> None:
    check_samples(step_call_of(case), case, "step")


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, in forward mode
@pytest.mark.parametrize(("form", "case"), rows(T=5, B=1, start=True, chunk_size=2))
def test_form_has_a_forward_derivative(form: Form, case: Case) -> None:
    """Forward mode and reverse mode agree on the slope of one sample."""
    x, call = samples_of(case)[0], loss_of(call_of(form, case))
    _, slope = jvp(call, (x,), ({name: torch.ones_like(y) for name, y in x.items()},))  # type: ignore[misc]
    gradients = grad(call)(x)
    assert_close(form.form, slope, sum(g.sum() for g in gradients.values()), EXACT)


def test_values_of_every_sample_are_checked() -> None:
    q = torch.ones(SAMPLES, 1, 4, 2, 3)
    decay = -torch.ones(SAMPLES, 1, 4, 2)
    decay[1, 0, 2, 0] = 0.25
    with pytest.raises(ValueError, match=r"log_decay: got a largest value of 0\.25"):
        vmap(chunk_linear_attention)(q, q, q, decay)
    with pytest.raises(ValueError, match=r"log_decay: got a largest value of 0\.25"):
        vmap(grad(lambda q, g: chunk_linear_attention(q, q, q, g).output.sum()))(q, decay)
    with pytest.raises(ValueError, match=r"beta: got a smallest value of -1"):
        vmap(chunk_delta_rule)(q, q, q, decay)
    with pytest.raises(ValueError, match="positions: got 0 to 9"):
        vmap(cos_reweight, in_dims=(0, 0, None))(q, torch.tensor([[0.0, 1, 2, 3]] * 2 + [[0.0, 1, 2, 9]]), 8)
