"""Translate our arguments into those of functions of flash-linear-attention (FLA), and back.

Only names and the order of axes change, never what is computed. What FLA has no place for is refused with a
``ValueError``; nothing is dropped in silence. FLA has our axes and other names::

    chunk_gla(**to_fla("chunk_gla", q=q, k=k, v=v, log_decay=g))

Source: fla-core 0.6.0.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from linattn_benchmarks.translation.layouts import transpose_state
from linattn_ref.ops import LinearResult
from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.validation import choose_compute_dtype, require

Arguments = dict[str, Any]

# --- the table of its functions ----------------------------------------------------------------------------


class FLAFunction(NamedTuple):
    """Describe a function of FLA: where it is, and what it calls the arguments of our op.

    Attributes:
        module: the function is ``fla.ops.MODULE.NAME``.
        names: our name of each tensor that the function needs -> FLA's name.
        decay: the name of our ``log_decay`` by its number of dimensions: 1 for ``[H]``, 3 for ``[B, T, H]``,
            4 for ``[B, T, H, K]``. Empty where the function takes no decay.
        constants: arguments that must be passed because their default means another model.
        built_in_decay: number of heads H -> the ``log_decay`` ``[H]`` that the function makes itself.
        state_v_first: whether the function has the option to keep its state as ``[B, H, V, K]``.
    """

    module: str
    names: Mapping[str, str]
    decay: Mapping[int, str] = {}
    constants: Mapping[str, Any] = {}
    built_in_decay: Callable[[int], Tensor] | None = None
    state_v_first: bool = False


def _retention_decay(H: int) -> Tensor:
    """Return RetNet's log decays, log(1 - 2^(-5-h)) for head h, ``[H]`` float32."""
    return (1 - 2.0 ** (-5.0 - torch.arange(H, dtype=torch.float32))).log()


def _lightning_decay(H: int) -> Tensor:
    """Return the log decays of FLA's lightning attention in layer 0 of 1, -8 h / H, ``[H]`` float32."""
    return -(8 / H) * torch.arange(H, dtype=torch.float32)


OPTIONAL = {"scale": "scale", "initial_state": "initial_state"}  # every function has both, under these names
_QKV = {"q": "q", "k": "k", "v": "v"}
_DELTA = {**_QKV, "beta": "beta"}

_LINEAR = FLAFunction("linear_attn", _QKV, constants={"normalize": False})
_RETENTION = FLAFunction("retention", _QKV, built_in_decay=_retention_decay)
_LIGHTNING = FLAFunction(
    "lightning_attn", _QKV, constants={"layer_idx": 0, "num_layers": 1}, built_in_decay=_lightning_decay
)
_SIMPLE_GLA = FLAFunction("simple_gla", _QKV, {1: "g_gamma", 3: "g"})
_DELTA_RULE = FLAFunction("delta_rule", _DELTA)
_GATED_DELTA_RULE = FLAFunction("gated_delta_rule", _DELTA, {3: "g"}, state_v_first=True)
_KDA = FLAFunction("kda", _DELTA, {4: "g"}, state_v_first=True)
_RWKV6 = FLAFunction("rwkv6", {"q": "r", "k": "k", "v": "v", "bonus": "u"}, {4: "w"})

FLA_FUNCTIONS: dict[str, FLAFunction] = {
    "chunk_linear_attn": _LINEAR,
    "fused_chunk_linear_attn": _LINEAR,
    "fused_recurrent_linear_attn": _LINEAR,
    "chunk_retention": _RETENTION,
    "fused_chunk_retention": _RETENTION,
    "fused_recurrent_retention": _RETENTION._replace(state_v_first=True),
    "chunk_lightning_attn": _LIGHTNING,
    "fused_recurrent_lightning_attn": _LIGHTNING,
    "chunk_simple_gla": _SIMPLE_GLA._replace(state_v_first=True),
    "fused_chunk_simple_gla": _SIMPLE_GLA,
    "fused_recurrent_simple_gla": _SIMPLE_GLA._replace(state_v_first=True),
    "chunk_gla": FLAFunction("gla", _QKV, {4: "g"}, state_v_first=True),
    "fused_recurrent_gla": FLAFunction("gla", _QKV, {4: "gk"}, state_v_first=True),
    "chunk_delta_rule": _DELTA_RULE,
    "fused_recurrent_delta_rule": _DELTA_RULE,
    "chunk_gated_delta_rule": _GATED_DELTA_RULE,
    "fused_recurrent_gated_delta_rule": _GATED_DELTA_RULE,
    "chunk_kda": _KDA,
    "fused_recurrent_kda": _KDA,
    "chunk_rwkv6": _RWKV6,
    "fused_recurrent_rwkv6": _RWKV6,
}


def import_fla_function(function: str) -> Callable[..., Any]:
    """Import a function of ``FLA_FUNCTIONS``; FLA's functions need Triton and a GPU.

    Args:
        function: its name, for example ``"chunk_gla"``.

    Returns:
        The function itself, ``fla.ops.gla.chunk_gla`` for example.

    Raises:
        ValueError: the table has no function of that name.
        ModuleNotFoundError: fla-core is not installed.

    Source:
        flash-linear-attention, fla-core 0.6.0.

    Example:
        >>> chunk_gla = import_fla_function("chunk_gla")  # doctest: +SKIP
        >>> output, state = chunk_gla(**to_fla("chunk_gla", q=q, k=k, v=v, log_decay=g))  # doctest: +SKIP
    """
    return getattr(importlib.import_module(f"fla.ops.{_describe(function).module}"), function)


def to_fla(function: str, *, state_v_first: bool = False, **ours: Any) -> Arguments:
    """Translate the arguments of our op into those of a function of FLA.

    Names change, and the state's axes if ``state_v_first``; numbers do not.

    Args:
        function: a name in ``FLA_FUNCTIONS``.
        state_v_first: ask FLA to take and return its state as ``[B, H, V, K]``. Default False:
            ``[B, H, K, V]``.
        ours: the arguments of our op by name: q, k ``[B, T, H, K]``, v ``[B, T, H, V]``, and where the
            function has them beta ``[B, T, H]``, bonus ``[H, K]``, log_decay, scale, initial_state
            ``[B, H, K, V]``. None is left out: both sides take it for the same default. A function whose
            decays are built in takes no others: log_decay must equal them.

    Returns:
        Keyword arguments for FLA's function. ``output_final_state=True`` is among them, because our ops
        always return the state.

    Raises:
        ValueError: the function is not in the table, lacks an argument, or has no place for one.

    Source:
        flash-linear-attention, fla-core 0.6.0.

    Example:
        >>> q, k, v, g = torch.zeros(4, 1, 5, 2, 3).unbind()
        >>> sorted(to_fla("chunk_gla", q=q, k=k, v=v, log_decay=g, scale=None))
        ['g', 'k', 'output_final_state', 'q', 'v']
    """
    row = _describe(function, state_v_first)
    given = {name: x for name, x in ours.items() if x is not None}
    names = {**row.names, **OPTIONAL}
    if row.decay:
        dims = given["log_decay"].ndim if "log_decay" in given else 0
        require(dims in row.decay, "log_decay", f"{dims} dimensions", " or ".join(map(str, row.decay)))
        names["log_decay"] = row.decay[dims]
    elif row.built_in_decay:
        _check_built_in_decay(function, row.built_in_decay, given.pop("log_decay", None))
    theirs = {**_rename(given, names), **row.constants, "output_final_state": True}
    return {**_transpose_result_state(theirs), "state_v_first": True} if state_v_first else theirs


def from_fla(function: str, *, state_v_first: bool = False, **theirs: Any) -> Arguments:
    """Translate the arguments of a function of FLA into those of our op: the inverse of ``to_fla``.

    Args:
        function: a name in ``FLA_FUNCTIONS``.
        state_v_first: whether ``initial_state`` is ``[B, H, V, K]``. Default False, ``[B, H, K, V]``.
        theirs: keyword arguments of FLA's function; shapes as in ``to_fla``.

    Returns:
        Keyword arguments for our op; log_decay is among them where FLA's function has it built in.

    Raises:
        ValueError: the function is not in the table, or ``theirs`` lacks an argument, has one that our op
            does not know, or asks for another model (``normalize=True``).

    Source:
        flash-linear-attention, fla-core 0.6.0.

    Example:
        >>> r, k, v, w = torch.zeros(4, 1, 5, 2, 3).unbind()
        >>> sorted(from_fla("chunk_rwkv6", r=r, k=k, v=v, w=w, u=torch.zeros(2, 3)))
        ['bonus', 'k', 'log_decay', 'q', 'v']
    """
    row = _describe(function, state_v_first)
    theirs.pop("output_final_state", None)
    for name, value in row.constants.items():
        came = theirs.pop(name, "nothing")
        require(came == value, name, f"{came}", f"{value}")
    given = {name: x for name, x in theirs.items() if x is not None}
    own = {name: ours for ours, name in {**row.names, **OPTIONAL}.items()}
    decays = [name for name in given if name in row.decay.values()]
    require(len(decays) < 2, "log_decay", " and ".join(decays), "one of them only")
    ours = _rename(given, own | dict.fromkeys(decays, "log_decay"))
    if row.built_in_decay:
        q = ours["q"]
        ours["log_decay"] = row.built_in_decay(q.shape[2]).to(q.device, choose_compute_dtype(q))
    to_fla(function, **ours)  # refuses a decay that the function does not have
    return _transpose_result_state(ours) if state_v_first else ours


def from_fla_result(result: tuple[Tensor, Tensor | None], *, state_v_first: bool = False) -> LinearResult:
    """Translate what FLA returns into what our ops return; SSD's pair too, with ``state_v_first=True``.

    Args:
        result: FLA's ``(o, final_state)``: ``[B, T, H, V]`` and ``[B, H, K, V]``.
        state_v_first: whether the state is ``[B, H, V, K]``. Default False.

    Returns:
        ``LinearResult(output, state)``, ``[B, T, H, V]`` and ``[B, H, K, V]``.

    Raises:
        ValueError: the state is None; FLA returns it with ``output_final_state=True`` only.

    Source:
        flash-linear-attention, fla-core 0.6.0.

    Example:
        >>> result = from_fla_result((torch.zeros(1, 5, 2, 4), torch.zeros(1, 2, 4, 3)), state_v_first=True)
        >>> list(result.state.shape)
        [1, 2, 3, 4]
    """
    output, state = result
    if state is None:
        raise ValueError("final_state: got None, expected a tensor; FLA gives it if output_final_state=True")
    return LinearResult(output, transpose_state(state) if state_v_first else state)


def to_fla_normalised_state(state: Float[Tensor, "B H K V+1"]) -> tuple[Tensor, Tensor]:
    """Split the state of ``normalised`` into the pair that FLA carries with ``normalize=True``.

    Our last column, the sum of the keys, is FLA's ``z_state``. FLA adds 1e-10 to the denominator, we ``eps``,
    1e-6 by default; and FLA's scores have a scale where ours have 1, so that both agree for ``eps=0`` only.

    Args:
        state: ``[B, H, K, V + 1]``.

    Returns:
        The sum of keys times values ``[B, H, K, V]`` and the sum of keys ``[B, 1, H, K]``.

    Raises:
        ValueError: the state has not four dimensions.

    Source:
        flash-linear-attention, fla-core 0.6.0, ``linear_attn/naive.py``.

    Example:
        >>> [list(x.shape) for x in to_fla_normalised_state(torch.zeros(1, 2, 3, 5))]
        [[1, 2, 3, 4], [1, 1, 2, 3]]
    """
    require(state.ndim == 4, "state", f"shape {list(state.shape)}", "[B, H, K, V + 1]")
    return state[..., :-1], state[..., -1][:, None]


def from_fla_normalised_state(state: tuple[Tensor, Tensor]) -> Float[Tensor, "B H K V+1"]:
    """Join FLA's pair into the state of ``normalised``: the inverse of ``to_fla_normalised_state``.

    Args:
        state: the sum of keys times values ``[B, H, K, V]`` and the sum of keys ``[B, 1, H, K]``.

    Returns:
        ``[B, H, K, V + 1]``: the sum of keys becomes the last column.

    Raises:
        ValueError: the two shapes do not belong together.

    Source:
        flash-linear-attention, fla-core 0.6.0, ``linear_attn/naive.py``.

    Example:
        >>> list(from_fla_normalised_state((torch.zeros(1, 2, 3, 4), torch.zeros(1, 1, 2, 3))).shape)
        [1, 2, 3, 5]
    """
    kv, z = state
    fits = kv.ndim == 4 and z.shape == (kv.shape[0], 1, *kv.shape[1:3])
    require(fits, "state", f"shapes {list(kv.shape)}, {list(z.shape)}", "[B, H, K, V], [B, 1, H, K]")
    return torch.cat([kv, z[:, 0, ..., None]], -1)


def _describe(function: str, state_v_first: bool = False) -> FLAFunction:
    """Return the row of the table, or refuse a name or an option that it does not have."""
    require(function in FLA_FUNCTIONS, "function", repr(function), "one of " + ", ".join(FLA_FUNCTIONS))
    has = FLA_FUNCTIONS[function].state_v_first or not state_v_first
    require(has, "state_v_first", "True", f"False: {function} has no such option")
    return FLA_FUNCTIONS[function]


def _check_built_in_decay(function: str, decay: Callable[[int], Tensor], log_decay: Tensor | None) -> None:
    """Refuse any log_decay but the one that the function has built in."""
    expected = f"the decays that {function} has built in"
    if log_decay is None or log_decay.ndim != 1:
        raise ValueError(f"log_decay: got other decays or none, expected {expected}")
    own, given = decay(len(log_decay)).double(), log_decay.detach().cpu().double()
    require(torch.allclose(given, own, rtol=1e-6, atol=0), "log_decay", "other numbers", expected)


def _rename(arguments: Arguments, names: Mapping[str, str]) -> Arguments:
    """Return every argument under its new name, and refuse unknown and missing ones."""
    for name in arguments:
        require(name in names, name, "an argument", "one of " + ", ".join(names))
    for name in names:
        require(name in arguments or name in OPTIONAL, name, "nothing", "a tensor")
    return {names[name]: x for name, x in arguments.items()}


def _transpose_result_state(arguments: Arguments) -> Arguments:
    """Return the arguments, ``initial_state`` with its last two axes swapped."""
    return {name: transpose_state(x) if name == "initial_state" else x for name, x in arguments.items()}
