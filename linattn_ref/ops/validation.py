"""Check arguments: a wrong one is a ``ValueError`` that names it, what came, and what was expected.

Shapes and dtypes are always checked, values only where they can be read (see ``find_value_range``).
"""

import warnings
from collections.abc import Callable

import torch
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor

from linattn_ref.ops.results import KVCache
from linattn_ref.ops.shapes import Tensor

QKV_SHAPE = {"q": "[B, T, H, K]", "k": "[B, T, H, K]", "v": "[B, T, H, V]"}
MANY_HEADS = 64  # of a size that is more often a length: see warn_if_heads_first

Text = str | Callable[[], str]  # a text that is only put together when it is needed


# --- what all checks are made of ---------------------------------------------------------------------------


def require(condition: bool, name: str, got: Text, expected: Text) -> None:
    """Raise the one kind of error that ops raise unless ``condition`` holds.

    Texts with sizes in them are given as functions. Spelling out a size would tie a compiled graph to it, and
    torch.compile would compile again for every length.

    Raises:
        ValueError: ``"name: got ..., expected ..."`` if ``condition`` is false.
    """
    if not condition:
        came, wanted = (text if isinstance(text, str) else text() for text in (got, expected))
        raise ValueError(f"{name}: got {came}, expected {wanted}")


def require_tensor(x: object, name: str, expected: str = "a torch.Tensor") -> None:
    """Raise unless x is a tensor."""
    require(isinstance(x, Tensor), name, type(x).__name__, expected)


def require_shape(x: Tensor, name: str, shape: tuple[int, ...]) -> None:
    """Raise unless x has this shape exactly: nothing is broadcast."""
    fits = x.ndim == len(shape) and all(n == m for n, m in zip(x.shape, shape, strict=True))
    require(fits, name, lambda: f"shape {list(x.shape)}", lambda: f"{[int(n) for n in shape]}")


def require_like(x: Tensor, name: str, q: Tensor, dtypes: tuple[torch.dtype, ...]) -> None:
    """Raise unless x has one of ``dtypes`` and is on q's device."""
    allowed = lambda: " or ".join(map(str, dict.fromkeys(dtypes)))  # noqa: E731
    require(x.dtype in dtypes, name, lambda: f"{x.dtype}", allowed)
    require(x.device == q.device, name, lambda: f"{x.device}", lambda: f"the device of q, {q.device}")


def require_values(
    x: Tensor, name: str, low: float = -torch.inf, top: float = torch.inf, meaning: str = ""
) -> None:
    """Raise unless all numbers of x are finite and between ``low`` and ``top``, where they can be read."""
    found = find_value_range(x)
    if found is None:
        return
    least, most = found
    require(most <= top, name, f"a largest value of {most:.4g}", meaning or f"values <= {top:g}")
    require(least >= low, name, f"a smallest value of {least:.4g}", meaning or f"values >= {low:g}")
    finite = least > -torch.inf and most < torch.inf
    require(finite, name, f"values from {least:.4g} to {most:.4g}", "finite values")


def find_value_range(x: Tensor) -> tuple[float, float] | None:
    """Return the smallest and the largest number of x (NaN if there is one), or None if they cannot be read.

    They cannot while a graph is compiled or exported, nor on the meta device. Under ``torch.func`` (vmap,
    grad) x wraps the tensor of the whole batch, which is read instead.
    """
    if torch.compiler.is_compiling() or x.device.type == "meta":
        return None
    while is_functorch_wrapped_tensor(x):
        x = get_unwrapped(x)
    least, most = torch.aminmax(x.detach())
    return least.item(), most.item()


def check_choice(value: object, name: str, choices: tuple[str, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    require(value in choices, name, lambda: repr(value), " or ".join(map(repr, choices)))


# --- the dtypes that are computed in -----------------------------------------------------------------------


def choose_compute_dtype(q: Tensor) -> torch.dtype:
    """Return the dtype that an op computes in: float32 at least, float64 for float64."""
    return torch.promote_types(q.dtype, torch.float32)


def choose_complex_dtype(u: Tensor) -> torch.dtype:
    """Return the complex dtype of the precision that an op computes in."""
    return torch.complex128 if choose_compute_dtype(u) == torch.float64 else torch.complex64


# --- arguments of ops on heads -----------------------------------------------------------------------------


def check_qkv(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise unless q, k are ``[B, T, H, K]`` and v ``[B, T, H, V]``, of one floating dtype, on one device."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check_sequence(x, name, f"{QKV_SHAPE[name]}, four dimensions")
    require_shape(k, "k", tuple(q.shape))
    require_shape(v, "v", (*q.shape[:3], v.shape[3]))
    require_like(k, "k", q, (q.dtype,))
    require_like(v, "v", q, (q.dtype,))
    warn_if_heads_first(q)


def _check_sequence(x: Tensor, name: str, expected: str) -> None:
    """Raise unless x is floating, has four dimensions, and none of them is empty."""
    require_tensor(x, name)
    require(x.ndim == 4, name, lambda: f"shape {list(x.shape)}", expected)
    require(all(n > 0 for n in x.shape), name, lambda: f"shape {list(x.shape)}", "no empty dimension")
    require(x.is_floating_point(), name, lambda: f"{x.dtype}", "a floating dtype")


def warn_if_heads_first(q: Tensor) -> None:
    """Warn where q ``[B, T, H, K]`` looks like ``[B, H, T, K]``, which would run and mean something else.

    FLA warns wherever T < H. That is also a short prompt of a model with many heads, so we ask for more: at
    least 64 heads, and at least four times as many as tokens. A single token is a step and never warns.
    """
    if torch.compiler.is_compiling():
        return
    T, H = q.shape[1:3]
    if T > 1 and max(MANY_HEADS, 4 * T) <= H:
        message = f"q: got shape {list(q.shape)}, read as T = {T} tokens with H = {H} heads; expected "
        # the line to show is the call of an op: this function, check_qkv, its caller and the op lie between
        warnings.warn(message + "[B, T, H, K]: are the heads first?", stacklevel=5)


def check_chunk_size(chunk_size: int) -> None:
    """Raise unless ``chunk_size`` is a whole number, at least 1."""
    whole = isinstance(chunk_size, int) and not isinstance(chunk_size, bool)
    require(whole and chunk_size >= 1, "chunk_size", lambda: repr(chunk_size), "a whole number, at least 1")


def check_log_decay(log_decay: Tensor, q: Tensor) -> None:
    """Raise unless ``log_decay`` is ``[H]``, ``[B, T, H]`` or ``[B, T, H, K]``, <= 0 and finite."""
    require_tensor(log_decay, "log_decay", "a torch.Tensor or None")
    shapes = {1: q.shape[2:3], 3: q.shape[:3], 4: q.shape}
    fits = log_decay.ndim in shapes and all(
        n == m for n, m in zip(log_decay.shape, shapes[log_decay.ndim], strict=True)
    )
    expected = lambda: ", ".join(str(list(shape)) for shape in shapes.values())  # noqa: E731
    require(fits, "log_decay", lambda: f"shape {list(log_decay.shape)}", lambda: f"one of {expected()}")
    require_like(log_decay, "log_decay", q, (q.dtype, choose_compute_dtype(q)))
    require_values(log_decay, "log_decay", top=0.0, meaning="natural logarithms of decays, <= 0")


def check_one_token(q: Tensor) -> None:
    """Raise unless q is ``[B, 1, H, K]``: a step takes one token."""
    require_tensor(q, "q")
    one = q.ndim == 4 and q.shape[1] == 1
    require(one, "q", lambda: f"shape {list(q.shape)}", "[B, 1, H, K], one token")


def check_cu_seqlens(cu_seqlens: Tensor, q: Tensor, read_values: bool = True) -> int:
    """Return the number of sequences packed in q ``[1, T, H, K]``; raise unless the offsets are such."""
    require_tensor(cu_seqlens, "cu_seqlens", "a torch.Tensor or None")
    fits = cu_seqlens.ndim == 1 and len(cu_seqlens) > 1
    require(fits, "cu_seqlens", lambda: f"shape {list(cu_seqlens.shape)}", "[n + 1] with n sequences")
    require_like(cu_seqlens, "cu_seqlens", q, (torch.int32, torch.int64))
    if read_values and find_value_range(cu_seqlens) is not None:
        ends, T = cu_seqlens.tolist(), q.shape[1]
        right = ends == sorted(ends) and (ends[0], ends[-1]) == (0, T)
        require(right, "cu_seqlens", str(ends), f"numbers from 0 to {T} that do not fall")
    require(q.shape[0] == 1, "q", lambda: f"shape {list(q.shape)}", "one batch element beside cu_seqlens")
    return len(cu_seqlens) - 1


def check_state(
    state: Tensor, q: Tensor, v: Tensor, name: str = "initial_state", n_states: int | None = None
) -> None:
    """Raise unless the state is ``[B, H, K, V]`` (``n_states`` of B, if given), in the dtype computed in."""
    require_tensor(state, name, "a torch.Tensor or None")
    require_shape(state, name, (n_states or q.shape[0], q.shape[2], q.shape[3], v.shape[3]))
    require_like(state, name, q, (choose_compute_dtype(q),))


def check_cache(cache: KVCache, q: Tensor, v: Tensor, name: str = "initial_state") -> None:
    """Raise unless the cache holds keys and values of S earlier tokens, in the dtype of the inputs."""
    require(isinstance(cache, tuple) and len(cache) == 2, name, type(cache).__name__, "a KVCache")
    B, _, H, K = q.shape
    for part, x, width in ((f"{name}.k", cache[0], K), (f"{name}.v", cache[1], v.shape[3])):
        require_tensor(x, part)
        S = cache[0].shape[1] if cache[0].ndim == 4 else -1
        require_shape(x, part, (B, S, H, width))
        require_like(x, part, q, (q.dtype,))


def check_positions(x: Tensor, positions: Tensor) -> None:
    """Raise unless x is ``[B, T, H, K]`` and positions ``[T]``, of float32 at least, to count far enough."""
    _check_sequence(x, "x", "[B, T, H, K]")
    require_tensor(positions, "positions")
    require_shape(positions, "positions", (x.shape[1],))
    require_like(positions, "positions", x, (torch.float32, torch.float64))


def resolve_scale(scale: float | None, K: int) -> float:
    """Return the scale, or ``K ** -0.5`` for None, as in every op."""
    if scale is None:
        return K**-0.5
    number = isinstance(scale, int | float) and not isinstance(scale, bool)
    require(number, "scale", type(scale).__name__, "a number or None")
    return float(scale)


# --- arguments of ops on channels: u [B, T, D], every channel with a state of its own ----------------------


def check_channels(x: Tensor, name: str) -> None:
    """Raise unless x is ``[B, T, D]``, floating, with no empty dimension."""
    require_tensor(x, name)
    require(x.ndim == 3, name, lambda: f"shape {list(x.shape)}", "[B, T, D], three dimensions")
    require(all(n > 0 for n in x.shape), name, lambda: f"shape {list(x.shape)}", "no empty dimension")
    require(x.is_floating_point(), name, str(x.dtype), "a floating dtype")


def check_one_channel_token(u: Tensor, name: str = "u") -> None:
    """Raise unless u is ``[B, 1, D]``: a step takes one token."""
    require_tensor(u, name)
    one = u.ndim == 3 and u.shape[1] == 1
    require(one, name, lambda: f"shape {list(u.shape)}", "[B, 1, D], one token")


def check_parameter(x: Tensor, name: str, u: Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless x is real, of this shape, in u's dtype or the one computed in, on u's device."""
    require_tensor(x, name)
    require_shape(x, name, shape)
    require_like(x, name, u, (u.dtype, choose_compute_dtype(u)))


def find_state_width(A: Tensor, D: int) -> int:
    """Return N of A ``[D, N]``, or raise if A has another shape."""
    require_tensor(A, "A")
    fits = A.ndim == 2 and A.shape[0] == D and A.shape[1] > 0
    require(fits, "A", lambda: f"shape {list(A.shape)}", lambda: f"[D, N] with D = {D}")
    return A.shape[1]


def resolve_channel_state(
    state: Tensor | None, name: str, u: Tensor, shape: tuple[int, int], dtype: torch.dtype
) -> Tensor:
    """Return the state, checked to be ``[B, *shape]`` in ``dtype``, or zeros for None."""
    if state is None:
        return torch.zeros(u.shape[0], *shape, dtype=dtype, device=u.device)
    require_tensor(state, name, "a torch.Tensor or None")
    require_shape(state, name, (u.shape[0], *shape))
    require_like(state, name, u, (dtype,))
    return state
