"""Compare FLA's layers with our mixers, on a GPU: needs flash-linear-attention and transformers.

FLA's layer gets its weights as functions of ours, so that both have a gradient for every weight of ours. A
row is how far the layer's output or a gradient is from ours.
"""

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from linattn_benchmarks.agreement_ops import DTYPES, ERROR, describe_largest_error, format_errors
from linattn_benchmarks.benchmark import Benchmark, Rows, Size, Task, choose_device
from linattn_benchmarks.compare import Tensors, compute_gradients, dtype_name, max_error
from linattn_ref.config import ModelConfig
from linattn_ref.interop import FLA_LAYERS, to_fla_layer
from linattn_ref.mixers import MIXERS, Mixer

SHAPES = {Size.FULL: (2, 500), Size.REDUCED: (1, 100), Size.DRY_RUN: (2, 70)}  # B, T
WIDTH: dict[str, Any] = {"d_model": 256, "n_heads": 4, "n_layers": 2, "norm_eps": 1e-5}
TINY: dict[str, Any] = WIDTH | {"d_model": 16, "n_heads": 2}
WIDTHS = {Size.FULL: WIDTH, Size.REDUCED: WIDTH, Size.DRY_RUN: TINY}
LAYER = 1  # of 2 layers, from 0: HGRN2 has a bound there
OPTIONS: dict[str, list[dict[str, Any]]] = {  # of a mixer that is not named here, the defaults alone
    "linear": [{}, {"normaliser": "norm"}],
    "delta_net": [{}, {"beta_max": 2.0}],
    "gated_delta_net": [{}, {"beta_max": 2.0}],
}
NO_NUMBER = "missing, or not finite"


def draw_mixer(name: str, options: dict[str, Any], width: dict[str, Any] = WIDTH) -> Mixer:
    """Draw a mixer whose decays, steps, gains, bonuses and bounds all differ, and none is extreme."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixer = MIXERS[name](ModelConfig(name, **width, options=options), LAYER)
        matrices = {id(part.weight) for part in mixer.modules() if isinstance(part, nn.Linear)}
        with torch.no_grad():
            for parameter in mixer.parameters():
                if id(parameter) not in matrices:
                    parameter.add_(0.3 * torch.randn_like(parameter))
    return mixer


def run(
    call: Callable[[Tensor], Tensor], mixer: Mixer, x: Tensor, upstream: Tensor, differentiate: bool = True
) -> Iterator[tuple[str, Tensor]]:
    """Yield the output, and only then the gradients: these may fail alone."""
    leaves = {"x": x.detach().clone().requires_grad_(differentiate), **dict(mixer.named_parameters())}
    with torch.set_grad_enabled(differentiate):
        output = call(leaves["x"])
    yield "output", output.detach()
    if differentiate:
        yield from compute_gradients({"output": output}, {"output": upstream}, leaves).items()


def compare(name: str, options: dict[str, Any], mode: str | None, dtype: torch.dtype, size: Size) -> Rows:
    """Return the rows of one layer in one mode; one that fails has a row with the reason."""
    device, layer = choose_device(size), FLA_LAYERS[name]
    (B, T), width = SHAPES[size], WIDTHS[size]
    mixer = draw_mixer(name, options, width).to(device, dtype)
    exact = deepcopy(mixer).double()
    gen = torch.Generator().manual_seed(1)
    x, upstream = (torch.randn(B, T, width["d_model"], generator=gen).to(device) for _ in range(2))
    x = x.to(dtype)
    ours = dict(run(lambda y: exact(y)[0], exact, x.double(), upstream))

    theirs: Tensors = {}
    differentiate = mode not in layer.forward_only_modes
    remark = None if differentiate else "the layer takes this mode only where no gradient is asked for"
    try:
        module = to_fla_layer(mixer, mode)

        def call(y: Tensor) -> Tensor:
            return functional_call(module, layer.weights(mixer), (y,), layer.arguments(mixer))[0]

        for quantity, found in run(call, mixer, x, upstream, differentiate):
            theirs[quantity] = found
    except Exception as error:  # a kernel that is refused must not hide the others
        remark = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    wanted = ours if differentiate and not remark else theirs or ["output"]
    rows: Rows = []
    for quantity in wanted:
        got, want = theirs.get(quantity), ours[quantity]
        error_of_it = math.nan if got is None else max_error(got, want)
        rows.append({"remark": None} | format_errors(quantity, error_of_it, want))
    rows[0]["remark"] = remark
    return [row | {"remark": row["remark"] or NO_NUMBER} if row["error"] is None else row for row in rows]


def format_settings(options: dict[str, Any]) -> str | None:
    """Return options as a cell of the table; None for the defaults."""
    return ", ".join(f"{field} = {value}" for field, value in options.items()) or None


def list_tasks(size: Size) -> list[Task]:
    """Return a task for every mixer, its options, mode and dtype."""
    found = []
    for name, layer in FLA_LAYERS.items():
        for options in OPTIONS.get(name, [{}]):
            for mode in (*layer.modes, *layer.forward_only_modes):
                for dtype in DTYPES:
                    key = {"mixer": name, "layer": layer.path, "settings": format_settings(options)}
                    key |= {"mode": mode, "dtype": dtype_name(dtype)}
                    found.append(Task(key, partial(compare, name, options, mode, dtype, size)))
    return found


FLA_LAYERS_BENCHMARK = Benchmark(
    name="fla_layers",
    columns={
        "mixer": "of ours",
        "layer": "of FLA",
        "settings": "of the mixer, where they are not its defaults",
        "mode": "of the layer; empty: it has none",
        "dtype": "of x and of all weights in FLA",
        "quantity": "output, or x or the weight of ours whose gradient is compared",
        "error": f"{ERROR}; empty: see remark",
        "size": "max|ours|",
        "remark": "why there is no error, or behind the output no row of gradients",
    },
    tasks=list_tasks,
    mixers=tuple(FLA_LAYERS),
    needs_gpu=True,
    group_by="mixer",
    processes_share_gpu=True,
    describe=describe_largest_error,
)
