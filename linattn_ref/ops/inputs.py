"""What every attention op does at its door: check, promote, scale once. And the results it returns.

An op's body then computes in ``promote_types(dtype, float32)`` without a cast in sight: float64 stays
float64, half precision is carried in float32, and the state is float32 at least.
"""

from typing import NamedTuple, Protocol

import torch

from linattn_ref.shapes import Tensor

QKV_SHAPE = {"q": "[B, T, H, K]", "k": "[B, T, H, K]", "v": "[B, T, H, V]"}


class LinearResult(NamedTuple):
    """Output ``[B, T, H, V]`` in q's dtype and state ``[B, H, K, V]`` in float32 at least."""

    output: Tensor
    state: Tensor


class KVCache(NamedTuple):
    """All keys ``[B, S, H, K]`` and values ``[B, S, H, V]`` so far, in the dtype of the inputs."""

    k: Tensor
    v: Tensor


class SoftmaxResult(NamedTuple):
    """Output ``[B, T, H, V]`` in q's dtype and the cache, which has grown by T."""

    output: Tensor
    state: KVCache


def shape_of(x: Tensor) -> str:
    return f"{list(x.shape)}"


def require(condition: bool, name: str, got: object, expected: str) -> None:
    """Raise the one kind of error that ops raise: argument, what came, what was expected."""
    if not condition:
        raise ValueError(f"{name}: got {got}, expected {expected}")


def check_qkv(q: Tensor, k: Tensor, v: Tensor) -> None:
    """q, k ``[B, T, H, K]`` and v ``[B, T, H, V]``, one floating dtype, one device, T >= 1."""
    for name, x in {"q": q, "k": k, "v": v}.items():
        require(isinstance(x, Tensor), name, type(x).__name__, "a torch.Tensor")
        require(x.ndim == 4, name, f"shape {shape_of(x)}", f"{QKV_SHAPE[name]}, four dimensions")
        require(x.is_floating_point(), name, x.dtype, "a floating dtype")
        require(x.numel() > 0, name, f"shape {shape_of(x)}", "no empty dimension")
    B, T, H, K = q.shape
    require(k.shape == q.shape, "k", f"shape {shape_of(k)}", f"the shape of q, [{B}, {T}, {H}, {K}]")
    require(v.shape[:3] == (B, T, H), "v", f"shape {shape_of(v)}", f"[{B}, {T}, {H}, V], as q and k")
    for name, x in {"k": k, "v": v}.items():
        require(x.dtype == q.dtype, name, x.dtype, f"the dtype of q, {q.dtype}")
        require(x.device == q.device, name, x.device, f"the device of q, {q.device}")


def check_chunk_size(chunk_size: int) -> None:
    whole = isinstance(chunk_size, int) and not isinstance(chunk_size, bool)
    require(whole and chunk_size >= 1, "chunk_size", repr(chunk_size), "a whole number, at least 1")


def check_log_decay(log_decay: Tensor, q: Tensor) -> None:
    """``[H]``, ``[B, T, H]`` or ``[B, T, H, K]``, natural logarithms, all <= 0 and finite."""
    B, T, H, K = q.shape
    shapes = ((H,), (B, T, H), (B, T, H, K))
    expected = f"[{H}], [{B}, {T}, {H}] or [{B}, {T}, {H}, {K}]"
    require(isinstance(log_decay, Tensor), "log_decay", type(log_decay).__name__, "a torch.Tensor or None")
    require(log_decay.shape in shapes, "log_decay", f"shape {shape_of(log_decay)}", expected)
    dtypes = {q.dtype, compute_dtype(q)}
    require(log_decay.dtype in dtypes, "log_decay", log_decay.dtype, f"one of {sorted(map(str, dtypes))}")
    require(log_decay.device == q.device, "log_decay", log_decay.device, f"the device of q, {q.device}")
    if torch.compiler.is_compiling():
        return  # the values are not known while a graph is being traced
    top, low = log_decay.max().item(), log_decay.min().item()
    require(top <= 0, "log_decay", f"a largest value of {top:.4g}", "natural logarithms of decays, <= 0")
    require(low > -float("inf"), "log_decay", f"a smallest value of {low:.4g}", "finite values")


def check_one_token(q: Tensor) -> None:
    """A step takes T = 1."""
    require(isinstance(q, Tensor), "q", type(q).__name__, "a torch.Tensor")
    require(q.ndim == 4 and q.shape[1] == 1, "q", f"shape {shape_of(q)}", "[B, 1, H, K], one token")


def check_state(state: Tensor, q: Tensor, v: Tensor, name: str = "initial_state") -> None:
    """The linear state ``[B, H, K, V]`` in the dtype the op computes in."""
    B, _, H, K = q.shape
    expected = f"[{B}, {H}, {K}, {v.shape[-1]}]"
    require(isinstance(state, Tensor), name, type(state).__name__, "a torch.Tensor or None")
    require(list(state.shape) == [B, H, K, v.shape[-1]], name, f"shape {shape_of(state)}", expected)
    require(state.dtype == compute_dtype(q), name, state.dtype, f"{compute_dtype(q)}")
    require(state.device == q.device, name, state.device, f"the device of q, {q.device}")


def check_cache(cache: KVCache, q: Tensor, v: Tensor, name: str = "initial_state") -> None:
    """A ``KVCache`` of S earlier tokens, in the dtype of the inputs."""
    B, _, H, K = q.shape
    require(isinstance(cache, tuple) and len(cache) == 2, name, type(cache).__name__, "a KVCache")
    S: int | str = "S"
    for part, x, width in ((f"{name}.k", cache[0], K), (f"{name}.v", cache[1], v.shape[-1])):
        require(isinstance(x, Tensor), part, type(x).__name__, "a torch.Tensor")
        S = x.shape[1] if S == "S" and x.ndim == 4 else S
        require(list(x.shape) == [B, S, H, width], part, f"shape {shape_of(x)}", f"[{B}, {S}, {H}, {width}]")
        require(x.dtype == q.dtype, part, x.dtype, f"the dtype of q, {q.dtype}")
        require(x.device == q.device, part, x.device, f"the device of q, {q.device}")


def compute_dtype(q: Tensor) -> torch.dtype:
    return torch.promote_types(q.dtype, torch.float32)


def scale_or_default(scale: float | None, K: int) -> float:
    """``None`` means ``K ** -0.5``, in every op."""
    if scale is None:
        return K**-0.5
    number = isinstance(scale, int | float) and not isinstance(scale, bool)
    require(number, "scale", type(scale).__name__, "a number or None")
    return float(scale)


class LinearBody(Protocol):
    """The mathematics of one form: q scaled; log_decay None, [B, T, H, 1] or [B, T, H, K]."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, S: Tensor | None, /
    ) -> tuple[Tensor, Tensor]: ...


def run_linear(
    body: LinearBody,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    scale: float | None,
    initial_state: Tensor | None,
    state_name: str = "initial_state",
) -> LinearResult:
    """Check, promote, scale q, run ``body`` with autocast off, and give the output back in q's dtype."""
    check_qkv(q, k, v)
    B, T, H, K = q.shape
    dtype = compute_dtype(q)
    if log_decay is not None:
        check_log_decay(log_decay, q)
        log_decay = log_decay.to(dtype)
        if log_decay.ndim == 1:
            log_decay = log_decay.expand(B, T, H)
        if log_decay.ndim == 3:
            log_decay = log_decay[..., None]
    if initial_state is not None:
        check_state(initial_state, q, v, state_name)
    with torch.autocast(q.device.type, enabled=False):
        scaled = q.to(dtype) * scale_or_default(scale, K)
        output, state = body(scaled, k.to(dtype), v.to(dtype), log_decay, initial_state)
    return LinearResult(output.to(q.dtype), state)


class SoftmaxBody(Protocol):
    """The mathematics of one form: q ``[B, T, H, K]`` scaled, k and v with the S cached tokens in front."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor: ...


def run_softmax(
    body: SoftmaxBody,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None,
    initial_state: KVCache | None,
    state_name: str = "initial_state",
) -> SoftmaxResult:
    """Check, put the cache in front of k and v, promote, scale q, run ``body`` with autocast off."""
    check_qkv(q, k, v)
    cache = KVCache(k, v)
    if initial_state is not None:
        check_cache(initial_state, q, v, state_name)
        cache = KVCache(torch.cat([initial_state[0], k], 1), torch.cat([initial_state[1], v], 1))
    dtype = compute_dtype(q)
    with torch.autocast(q.device.type, enabled=False):
        scaled = q.to(dtype) * scale_or_default(scale, q.shape[-1])
        output = body(scaled, cache.k.to(dtype), cache.v.to(dtype))
    return SoftmaxResult(output.to(q.dtype), cache)
