"""Measure a model of 336 M parameters as its user has it, beside FLA's: steps of training, and decoding.

Ours is a ``LanguageModel`` on our kernels, FLA's the class of that name with the same width, layers, heads
and vocabulary, and its own defaults for the rest (so its output layer is not tied to the embedding). Softmax
attention has no model beside it. The same optimizer (fused AdamW), autocast and tokens for both.
"""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, logsigmoid, rms_norm, silu
from torch.utils.checkpoint import checkpoint

from linattn_benchmarks.benchmark import Benchmark, BenchmarkRow, Rows, Size, Task, choose_device
from linattn_benchmarks.models import add_peak_memory, capture_step, choose_dtype
from linattn_book import measure
from linattn_ref.backend import choose_backend
from linattn_ref.mixers.base import Projections
from linattn_ref.mixers.delta_net import GatedDeltaNetMixer
from linattn_ref.mixers.gla import GLAMixer
from linattn_ref.mixers.hgrn2 import HGRN2Mixer
from linattn_ref.model import GatedMLP, LanguageModel, ModelConfig, decoding

OURS, FLA = "ours", "fla"
PLAIN, LEAN, BLOCKS, COMPILED = "plain", "lean", "blocks", "compiled"
CHUNK = 2048  # tokens whose logits are held at a time


class Sizes(NamedTuple):
    """Say how large the models are, and what they are given."""

    d_model: int
    n_layers: int
    n_heads: int
    vocab_size: int
    sequences: int
    tokens: int
    prompt: int  # tokens that are read before decoding
    decoded: int  # tokens in a row that are timed


SIZES = {
    Size.FULL: Sizes(1024, 24, 8, 32_000, 8, 2048, 512, 32),
    Size.REDUCED: Sizes(512, 4, 4, 32_000, 4, 1024, 128, 16),
    Size.DRY_RUN: Sizes(32, 2, 2, 64, 2, 32, 8, 2),
}
FLA_MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {  # mixer: module, class, what is not its default
    "hgrn2": ("fla.models.hgrn2", "HGRN2", {}),
    "gla": ("fla.models.gla", "GLA", {}),
    "gated_delta_net": ("fla.models.gated_deltanet", "GatedDeltaNet", {"head_dim": 128, "expand_v": 1.0}),
}
MIXERS = ("softmax", *FLA_MODELS)


def build(whose: str, mixer: str, size: Size) -> Any:
    """Return a model with weights in float32, on the CPU."""
    sizes = SIZES[size]
    torch.manual_seed(0)
    if whose == OURS:
        given: dict[str, Any] = {"backend": choose_backend(choose_device(size))}
        shape = sizes.d_model, sizes.n_layers, sizes.n_heads, sizes.vocab_size
        return LanguageModel(ModelConfig(mixer, *shape, **given))
    module, name, changed = FLA_MODELS[mixer]
    found = importlib.import_module(module)
    config = getattr(found, f"{name}Config")(
        hidden_size=sizes.d_model,
        num_hidden_layers=sizes.n_layers,
        num_heads=sizes.n_heads,
        vocab_size=sizes.vocab_size,
        **changed,
    )
    return getattr(found, f"{name}ForCausalLM")(config)


# --- training -----------------------------------------------------------------------------------------------


def sum_losses(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Return the sum of the cross entropies of tokens [N]; the logits [N, vocabulary] are in float32."""
    return cross_entropy(linear(hidden, weight).float(), targets, reduction="sum")


def compute_loss(
    hidden: Tensor, weight: Tensor, targets: Tensor, sums: Callable[..., Tensor] = sum_losses
) -> Tensor:
    """Return the mean cross entropy of hidden [B, T, D]; logits are made chunk by chunk, and again backward.

    All of them would be the largest tensors of a training step: [B, T, vocabulary], several times. ``sums``
    is ``sum_losses``, or that compiled.
    """
    pieces = zip(hidden.flatten(0, 1).split(CHUNK), targets.flatten().split(CHUNK), strict=True)
    losses = [checkpoint(sums, h, weight, t, use_reentrant=False) for h, t in pieces]
    return torch.stack(losses).sum() / targets.numel()


def keep_less(model: Any) -> None:
    """Make a training step keep less, with equal gradients; no product and no op runs again for that.

    What a norm gives is cast once for all who read it. The product of an MLP's factors, the normed output of
    a mixer with an output gate, and what lies between HGRN2's gates are computed again backward.
    """
    for norm in (
        model.norm,
        *(norm for block in model.blocks for norm in (block.mixer_norm, block.mlp_norm)),
    ):
        norm.register_forward_hook(cast_once)
    for block in model.blocks:
        block.mlp.forward = partial(compute_gated_mlp, block.mlp)
        if isinstance(block.mixer, GLAMixer | GatedDeltaNetMixer):
            block.mixer.output = partial(compute_gated_output, block.mixer)  # type: ignore[method-assign]
        if isinstance(block.mixer, HGRN2Mixer):
            block.mixer.mix = partial(mix_gated, block.mixer)  # type: ignore[method-assign]


def cast_once(norm: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    """Return what a norm gave in the dtype that autocast multiplies in."""
    kind = output.device.type
    return output.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else output


class GatedProduct(torch.autograd.Function):
    """Compute y = (silu(gate) * up) W^T, and keep gate and up [B, T, F] alone."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up, weight)
        return linear(silu(gate) * up, weight)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        gate, up, weight = ctx.saved_tensors
        opened = silu(gate)
        dproduct = dy @ weight.to(dy.dtype)  # [B, T, F]
        dweight = dy.flatten(0, -2).T @ (opened * up).flatten(0, -2)
        dgate = torch.ops.aten.silu_backward(dproduct * up, gate)
        return dgate, dproduct * opened, dweight.to(weight.dtype)


def compute_gated_mlp(mlp: GatedMLP, x: Tensor) -> Tensor:
    """Return what a gated MLP with SiLU makes of x [B, T, D]."""
    return GatedProduct.apply(mlp.gate(x), mlp.up(x), mlp.out.weight)


class GatedNorm(torch.autograd.Function):
    """Compute y = RMSNorm(o) * gate with heads side by side, and keep o [B, T, H, V] and gate alone."""

    @staticmethod
    def forward(ctx: Any, o: Tensor, gate: Tensor, weight: Tensor, eps: float) -> Tensor:
        ctx.save_for_backward(o, gate, weight)
        ctx.eps = eps
        return (rms_norm(o.to(weight.dtype), weight.shape, weight, eps).flatten(-2) * gate).to(gate.dtype)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        o, gate, weight = ctx.saved_tensors
        leaves = o.to(weight.dtype).requires_grad_(), weight.detach().requires_grad_()
        with torch.enable_grad():
            normed = rms_norm(leaves[0], weight.shape, leaves[1], ctx.eps)
        do, dweight = torch.autograd.grad(normed, leaves, (dy * gate.to(weight.dtype)).view_as(normed))
        return do.to(o.dtype), (dy * normed.detach().flatten(-2)).to(gate.dtype), dweight, None


def compute_gated_output(mixer: GLAMixer | GatedDeltaNetMixer, o: Tensor, z: Projections) -> Tensor:
    """Return the mixer's output [B, T, D]."""
    norm = mixer.norm.norm
    return mixer.out(GatedNorm.apply(o, z["gate"], norm.weight, norm.eps))


class BoundedGates(torch.autograd.Function):
    """Compute HGRN2's keys and log decays, and keep f [B, T, H, K], bound [H, K] and the log decays.

    With s = sigmoid(f): alpha = bound + (1 - bound) s, k = (1 - bound) (1 - s). At the bottom the bound is 0.
    """

    @staticmethod
    def forward(ctx: Any, f: Tensor, bound: Tensor, mixer: HGRN2Mixer, z: Projections) -> Any:
        k, log_decay = compute_gates(mixer, z)
        ctx.save_for_backward(f, bound, log_decay)
        ctx.bottom = mixer.layer == 0
        return k, log_decay

    @staticmethod
    def backward(ctx: Any, dk: Tensor, dlog: Tensor) -> tuple[Tensor, Tensor, None, None]:  # type: ignore[override]
        f, bound, log_decay = ctx.saved_tensors
        closed = torch.sigmoid(-f)  # 1 - s
        share = (logsigmoid(f) - log_decay).exp()  # s / alpha, 1 at most
        df = (1 - bound) * closed * (share * dlog - (1 - closed) * dk)
        dbound = -closed * dk if ctx.bottom else closed * ((-log_decay).exp() * dlog - dk)
        return df, dbound.sum((0, 1)), None, None


def compute_gates(mixer: HGRN2Mixer, z: Projections) -> tuple[Tensor, Tensor]:
    """Return the keys and logarithms of decays that the mixer gives to linear attention, by its own code."""
    given: list[Tensor] = []

    def linear_attention(*inputs: Tensor, **options: Any) -> tuple[None, None]:
        given.extend(inputs)
        return None, None

    mixer.linear_attention = linear_attention  # type: ignore[method-assign, assignment]
    try:
        HGRN2Mixer.mix(mixer, z, None)
    finally:
        del mixer.linear_attention  # that of the class is left
    return given[1], given[3]


def mix_gated(mixer: HGRN2Mixer, z: Projections, S: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return what ``mix`` does."""
    k, log_decay = BoundedGates.apply(z["f"], z["bound"], mixer, z)
    return mixer.linear_attention(z["q"], k, z["v"], log_decay, scale=1.0, state=S)


def wrap_our_loss(model: Any, mode: str) -> Callable[[Tensor], Tensor]:
    """Return tokens [B, T] -> loss of our model."""
    weight, model.head = model.head.weight, nn.Identity()
    sums = sum_losses
    if mode == LEAN:
        keep_less(model)
    elif mode == BLOCKS:
        torch._dynamo.config.recompile_limit = len(model.blocks)  # where layers differ each has its own code
        for block in model.blocks:
            block.compile()
    body = torch.compile(model) if mode == COMPILED else model
    if mode in (BLOCKS, COMPILED):
        sums = torch.compile(sum_losses)
    return lambda tokens: compute_loss(body(tokens)[0][:, :-1], weight, tokens[:, 1:], sums)


def wrap_fla_loss(model: Any, mode: str) -> Callable[[Tensor], Tensor]:
    """Return tokens [B, T] -> loss of FLA's model, which shifts labels by itself."""
    body = torch.compile(model) if mode == COMPILED else model
    return lambda tokens: body(input_ids=tokens, labels=tokens, use_cache=False).loss


def measure_training(whose: str, mixer: str, mode: str, size: Size) -> Rows:
    """Measure the first step, and steps after it."""
    device, sizes = choose_device(size), SIZES[size]
    model = build(whose, mixer, size).to(device)
    row: BenchmarkRow = {"parameters": sum(p.numel() for p in model.parameters())}
    weights = [*model.parameters()]
    torch.compiler.reset()  # of the models before it
    loss_of = (wrap_our_loss if whose == OURS else wrap_fla_loss)(model, mode)
    optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=device.type == "cuda")
    tokens = torch.randint(sizes.vocab_size, (sizes.sequences, sizes.tokens), device=device)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = loss_of(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    row["first_seconds"] = measure.seconds(step, repeats=1, warmup=0)
    with add_peak_memory(row, device):
        repeats = 1 if size is Size.DRY_RUN else 10
        seconds = measure.seconds(step, repeats=repeats, warmup=3)
        row["tokens_per_second"] = tokens.numel() / seconds
    return [row]


# --- decoding -----------------------------------------------------------------------------------------------


def wrap_our_step(model: Any, prompt: Tensor) -> tuple[Callable[[], None], list[Any]]:
    """Return what decodes a token of each sequence, and its memory."""
    logits, state = model(prompt)
    latest = [logits[:, -1:].argmax(-1), state]

    def step() -> None:
        logits, state = model(*latest)
        latest[:] = logits.argmax(-1), state

    return step, latest


def wrap_fla_step(model: Any, prompt: Tensor) -> tuple[Callable[[], None], list[Any]]:
    """Return what decodes a token of each sequence, and its memory."""
    out = model(input_ids=prompt, use_cache=True, logits_to_keep=1)
    latest = [out.logits[:, -1:].argmax(-1), out.past_key_values]

    def step() -> None:
        out = model(input_ids=latest[0], past_key_values=latest[1], use_cache=True)
        latest[:] = out.logits[:, -1:].argmax(-1), out.past_key_values

    return step, latest


@torch.no_grad()
def measure_decoding(whose: str, mixer: str, graph: bool, batch: int, size: Size) -> Rows:
    """Measure decoding after a prompt, launched from Python or as one CUDA graph that is replayed."""
    device, sizes = choose_device(size), SIZES[size]
    model = build(whose, mixer, size).to(device, choose_dtype(device)).eval()
    row: BenchmarkRow = {"parameters": sum(p.numel() for p in model.parameters())}
    prompt = torch.randint(sizes.vocab_size, (batch, sizes.prompt), device=device)
    ready: list[Any] = []  # the step, and its memory

    def begin() -> None:
        ready[:] = (wrap_our_step if whose == OURS else wrap_fla_step)(model, prompt)
        ready[0]()

    def several() -> None:
        for _ in range(sizes.decoded):
            ready[0]()

    with decoding(model):  # FLA's has no mixers of ours
        row["first_seconds"] = measure.seconds(begin, repeats=1, warmup=0)
        with add_peak_memory(row, device):
            several()
            if graph:
                given = [*ready[1]]  # what the graph reads at every replay must stay where it is
                seconds = measure.seconds(capture_step(ready[0]).replay, repeats=50, warmup=5)
                del given
            else:
                repeats = 1 if size is Size.DRY_RUN else 5
                seconds = measure.seconds(several, repeats=repeats, warmup=1) / sizes.decoded
            row["tokens_per_second"] = batch / seconds
    return [row]


# --- the benchmark ------------------------------------------------------------------------------------------


def list_tasks(size: Size) -> list[Task]:
    """Return tasks for every model: training as it is and compiled, decoding of 1 and 64 sequences."""
    models = [(FLA, mixer) for mixer in FLA_MODELS if size is not Size.DRY_RUN]  # tuning takes minutes
    tasks = []
    for whose, mixer in [*models, *((OURS, mixer) for mixer in MIXERS)]:
        key = {"model": f"{whose} {mixer}"}
        on_gpu, less = choose_device(size).type == "cuda", whose == OURS and mixer != "softmax"
        own = whose == OURS and on_gpu
        modes = (
            PLAIN,
            *((LEAN,) if less else ()),
            *((BLOCKS,) if own else ()),
            *((COMPILED,) if on_gpu else ()),
        )
        for mode in modes:
            measures = partial(measure_training, whose, mixer, mode, size)
            tasks.append(
                Task({**key, "task": "train", "mode": mode, "batch": SIZES[size].sequences}, measures)
            )
        graphs = ("launched", "graph") if whose == OURS and on_gpu else ("launched",)
        for mode in graphs:
            for batch in (1, 64):
                measures = partial(measure_decoding, whose, mixer, mode == "graph", batch, size)
                tasks.append(Task({**key, "task": "decode", "mode": mode, "batch": batch}, measures))
    return tasks


WHOLE_MODELS = Benchmark(
    name="whole_models",
    columns={
        "model": "ours, or fla: FLA's of the same width, layers, heads and vocabulary; and the mixer",
        "task": "train: forward, backward and fused AdamW; decode: one token of each sequence a step",
        "mode": "train: plain, lean (keep_less), each block compiled, or all; decode: launched or graph",
        "batch": "sequences; of 2048 tokens in training, after 512 tokens in decoding",
        "parameters": "count",
        "first_seconds": "until the first step was done: compiling and tuning, with an empty cache or a full",
        "tokens_per_second": "of all sequences",
        "peak_bytes": "of tensors at a time, weights and optimizer included",
    },
    tasks=list_tasks,
    mixers=MIXERS,
    group_by="model",
)
