"""Our mixers against FLA's layers, as ``fla_layers`` pairs them.

FLA's layer gets its weights as functions of ours, so that both have a gradient for every weight of ours. A
row is how far the layer's output or a gradient is from ours.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from linattn_benchmarks.agreement.rows import (
    DTYPES,
    ERROR,
    Case,
    Numbers,
    Rows,
    Study,
    gradients,
    measured,
    named,
)
from linattn_book.measure import default_device
from linattn_ref.config import ModelConfig
from linattn_ref.interop.fla_layers import LAYERS, fla_layer
from linattn_ref.mixers import MIXERS, Mixer

B, T = 2, 500
SIZES: dict[str, Any] = {"d_model": 256, "n_heads": 4, "n_layers": 2, "norm_eps": 1e-5}
DEPTH = 1  # of 2 layers, from 0: HGRN2 has a bound there
SETTINGS: dict[str, list[dict[str, Any]]] = {  # of a mixer that is not named here, the defaults alone
    "linear": [{}, {"normaliser": "norm"}],
    "delta_net": [{}, {"beta_max": 2.0}],
    "gated_delta_net": [{}, {"beta_max": 2.0}],
}
NO_NUMBER = "missing, or not finite"
COLUMNS = {
    "mixer": "of ours",
    "layer": "of FLA",
    "settings": "of the mixer, where they are not its defaults",
    "mode": "of the layer; empty: it has none",
    "dtype": "of x and of all weights in FLA",
    "quantity": "output, or x or the weight of ours whose gradient is compared",
    "error": f"{ERROR}; empty: see remark",
    "size": "max|ours|",
    "remark": "why there is no error, or behind the output no row of gradients",
}


def draw(name: str, overrides: dict[str, Any]) -> Mixer:
    """A mixer whose decays, steps, gains, bonuses and bounds are all different, and none at an extreme."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixer = MIXERS[name](ModelConfig(name, **SIZES | overrides), DEPTH)
        matrices = {id(part.weight) for part in mixer.modules() if isinstance(part, nn.Linear)}
        with torch.no_grad():
            for parameter in mixer.parameters():
                if id(parameter) not in matrices:
                    parameter.add_(0.3 * torch.randn_like(parameter))
    return mixer


def run(
    call: Callable[[Tensor], Tensor], mixer: Mixer, x: Tensor, upstream: Tensor, gradient: bool = True
) -> Iterator[tuple[str, Tensor]]:
    """The output, and only then the gradients: these may fail alone."""
    leaves = {"x": x.detach().clone().requires_grad_(gradient), **dict(mixer.named_parameters())}
    with torch.set_grad_enabled(gradient):
        output = call(leaves["x"])
    yield "output", output.detach()
    if gradient:
        yield from gradients({"output": output}, {"output": upstream}, leaves).items()


def compare(name: str, overrides: dict[str, Any], mode: str | None, dtype: torch.dtype) -> Rows:
    """The rows of one layer in one mode; one that fails has a row that says so."""
    device, layer = default_device(), LAYERS[name]
    mixer = draw(name, overrides).to(device, dtype)
    exact = deepcopy(mixer).double()
    gen = torch.Generator().manual_seed(1)
    x, upstream = (torch.randn(B, T, SIZES["d_model"], generator=gen).to(device) for _ in range(2))
    x = x.to(dtype)
    ours = dict(run(lambda y: exact(y)[0], exact, x.double(), upstream))

    theirs: Numbers = {}
    gradient = mode not in layer.frozen
    remark = None if gradient else "the layer takes this mode only where no gradient is asked for"
    try:
        module = fla_layer(mixer, mode)

        def call(y: Tensor) -> Tensor:
            return functional_call(module, layer.weights(mixer), (y,), layer.arguments(mixer))[0]

        for quantity, found in run(call, mixer, x, upstream, gradient):
            theirs[quantity] = found
    except Exception as error:  # a kernel that is refused must not hide the others
        remark = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    shared = {"mixer": name, "layer": layer.path, "settings": said(overrides), "mode": mode}
    shared |= {"dtype": named(dtype), "remark": None}
    wanted = ours if gradient and not remark else theirs or ["output"]
    rows = [shared | measured(quantity, theirs.get(quantity), ours[quantity]) for quantity in wanted]
    rows[0]["remark"] = remark
    return [row | {"remark": row["remark"] or NO_NUMBER} if row["error"] is None else row for row in rows]


def said(overrides: dict[str, Any]) -> str | None:
    return ", ".join(f"{field} = {value}" for field, value in overrides.items()) or None


def cases(name: str) -> Iterator[Case]:
    for overrides in SETTINGS.get(name, [{}]):
        for mode in (*LAYERS[name].modes, *LAYERS[name].frozen):
            for dtype in DTYPES:
                label = ", ".join(filter(None, [name, said(overrides), mode, named(dtype)]))
                yield Case(label, partial(compare, name, overrides, mode, dtype))


LAYER_STUDY = Study(
    "fla_layers",
    "--layers ",
    list(LAYERS),
    cases,
    COLUMNS,
    (
        *(f"linattn_ref/{name}" for name in ("ops", "mixers", "config.py", "interop")),
        "benchmarks/linattn_benchmarks/agreement",
    ),
)
