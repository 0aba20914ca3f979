"""What every attention op does at its door: check, promote, scale once. And the results it returns.

An op's body then computes in ``promote_types(dtype, float32)`` without a cast in sight: float64 stays
float64, half precision is carried in float32, and the state is float32 at least.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import torch

from linattn_ref.ops.shapes import Tensor

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


Words = str | Callable[[], str]  # a text that is only put together when it is needed


def require(condition: bool, name: str, got: Words, expected: Words) -> None:
    """Raise the one kind of error that ops raise: argument, what came, what was expected.

    Texts with sizes in them are given as functions. Spelling out a size would tie a compiled graph to it, and
    torch.compile would compile again for every length.
    """
    if not condition:
        came, wanted = (text if isinstance(text, str) else text() for text in (got, expected))
        raise ValueError(f"{name}: got {came}, expected {wanted}")


def require_tensor(x: object, name: str, expected: str = "a torch.Tensor") -> None:
    require(isinstance(x, Tensor), name, type(x).__name__, expected)


def require_shape(x: Tensor, name: str, shape: tuple[int, ...]) -> None:
    fits = x.ndim == len(shape) and all(n == m for n, m in zip(x.shape, shape, strict=True))
    require(fits, name, lambda: f"shape {list(x.shape)}", lambda: f"{[int(n) for n in shape]}")


def require_like(x: Tensor, name: str, q: Tensor, dtypes: tuple[torch.dtype, ...]) -> None:
    """One of ``dtypes``, on q's device."""
    require(x.dtype in dtypes, name, lambda: f"{x.dtype}", lambda: " or ".join(map(str, dtypes)))
    require(x.device == q.device, name, lambda: f"{x.device}", lambda: f"the device of q, {q.device}")


def require_values(
    x: Tensor, name: str, low: float = -torch.inf, top: float = torch.inf, meaning: str = ""
) -> None:
    """All finite and between ``low`` and ``top``; nothing is checked where there are no values to look at."""
    if torch.compiler.is_compiling() or x.device.type == "meta":
        return
    least, most = (y.item() for y in torch.aminmax(x.detach()))
    require(most <= top, name, f"a largest value of {most:.4g}", meaning or f"values <= {top:g}")
    require(least >= low, name, f"a smallest value of {least:.4g}", meaning or f"values >= {low:g}")
    finite = least > -torch.inf and most < torch.inf
    require(finite, name, f"values from {least:.4g} to {most:.4g}", "finite values")


def check_qkv(q: Tensor, k: Tensor, v: Tensor) -> None:
    """q, k ``[B, T, H, K]`` and v ``[B, T, H, V]``, one floating dtype, one device, T >= 1."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check_sequence(x, name, f"{QKV_SHAPE[name]}, four dimensions")
    require_shape(k, "k", tuple(q.shape))
    require_shape(v, "v", (*q.shape[:3], v.shape[3]))
    require_like(k, "k", q, (q.dtype,))
    require_like(v, "v", q, (q.dtype,))


def _check_sequence(x: Tensor, name: str, expected: str) -> None:
    require_tensor(x, name)
    require(x.ndim == 4, name, lambda: f"shape {list(x.shape)}", expected)
    require(all(n > 0 for n in x.shape), name, lambda: f"shape {list(x.shape)}", "no empty dimension")
    require(x.is_floating_point(), name, str(x.dtype), "a floating dtype")


def check_chunk_size(chunk_size: int) -> None:
    whole = isinstance(chunk_size, int) and not isinstance(chunk_size, bool)
    require(whole and chunk_size >= 1, "chunk_size", lambda: repr(chunk_size), "a whole number, at least 1")


def check_log_decay(log_decay: Tensor, q: Tensor) -> None:
    """``[H]``, ``[B, T, H]`` or ``[B, T, H, K]``, natural logarithms, all <= 0 and finite."""
    require_tensor(log_decay, "log_decay", "a torch.Tensor or None")
    shapes = {1: q.shape[2:3], 3: q.shape[:3], 4: q.shape}
    fits = log_decay.ndim in shapes and all(
        n == m for n, m in zip(log_decay.shape, shapes[log_decay.ndim], strict=True)
    )
    expected = lambda: ", ".join(str(list(shape)) for shape in shapes.values())  # noqa: E731
    require(fits, "log_decay", lambda: f"shape {list(log_decay.shape)}", lambda: f"one of {expected()}")
    require_like(log_decay, "log_decay", q, (q.dtype, compute_dtype(q)))
    require_values(log_decay, "log_decay", top=0.0, meaning="natural logarithms of decays, <= 0")


def check_one_token(q: Tensor) -> None:
    """A step takes T = 1."""
    require_tensor(q, "q")
    one = q.ndim == 4 and q.shape[1] == 1
    require(one, "q", lambda: f"shape {list(q.shape)}", "[B, 1, H, K], one token")


def check_state(state: Tensor, q: Tensor, v: Tensor, name: str = "initial_state") -> None:
    """The linear state ``[B, H, K, V]`` in the dtype the op computes in."""
    require_tensor(state, name, "a torch.Tensor or None")
    require_shape(state, name, (q.shape[0], q.shape[2], q.shape[3], v.shape[3]))
    require_like(state, name, q, (compute_dtype(q),))


def check_cache(cache: KVCache, q: Tensor, v: Tensor, name: str = "initial_state") -> None:
    """A ``KVCache`` of S earlier tokens, in the dtype of the inputs."""
    require(isinstance(cache, tuple) and len(cache) == 2, name, type(cache).__name__, "a KVCache")
    B, _, H, K = q.shape
    for part, x, width in ((f"{name}.k", cache[0], K), (f"{name}.v", cache[1], v.shape[3])):
        require_tensor(x, part)
        S = cache[0].shape[1] if cache[0].ndim == 4 else -1
        require_shape(x, part, (B, S, H, width))
        require_like(x, part, q, (q.dtype,))


def check_positions(x: Tensor, positions: Tensor) -> None:
    """x ``[B, T, H, K]`` floating; positions ``[T]``, float32 at least: half precision cannot count far."""
    _check_sequence(x, "x", "[B, T, H, K]")
    require_tensor(positions, "positions")
    require_shape(positions, "positions", (x.shape[1],))
    require_like(positions, "positions", x, (torch.float32, torch.float64))


def no_autocast(device: torch.device) -> AbstractContextManager:
    """Autocast off, on devices that have it: an op chooses its own dtype."""
    if device.type == "meta":
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


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
    with no_autocast(q.device):
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
    with no_autocast(q.device):
        scaled = q.to(dtype) * scale_or_default(scale, q.shape[-1])
        output = body(scaled, cache.k.to(dtype), cache.v.to(dtype))
    return SoftmaxResult(output.to(q.dtype), cache)
