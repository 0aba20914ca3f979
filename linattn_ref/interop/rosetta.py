"""Translate our arguments into those of flash-linear-attention (FLA) and of Mamba, and back.

Only names, the order of axes and the place of a factor change, never what is computed. What the other side
has no place for is refused with a ``ValueError``; nothing is dropped in silence.

* FLA has our axes and other names: ``chunk_gla(**to_fla("chunk_gla", q=q, k=k, v=v, log_decay=g))``.
* Mamba-1 puts channels before time; groups of channels may have their own B and C.
* SSD, the heart of Mamba-2, writes C, B, X for q, k, v, has no scale and keeps the value axis of its state
  first.

Sources: fla-core 0.6.0 for FLA; ``selective_scan_ref`` in the Mamba repository; Dao and Gu 2024 (arXiv
2405.21060, listing 1) for ``ssd_minimal_discrete``.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch.nn.functional import silu, softplus

from linattn_ref.ops import LinearResult, associative_selective_scan
from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.validation import check_log_decay, check_qkv, compute_dtype, require, require_shape

Arguments = dict[str, Any]

# --- FLA: the table of its functions -----------------------------------------------------------------------


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
    return getattr(importlib.import_module(f"fla.ops.{_described(function).module}"), function)


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
    row = _described(function, state_v_first)
    given = {name: x for name, x in ours.items() if x is not None}
    names = {**row.names, **OPTIONAL}
    if row.decay:
        dims = given["log_decay"].ndim if "log_decay" in given else 0
        require(dims in row.decay, "log_decay", f"{dims} dimensions", " or ".join(map(str, row.decay)))
        names["log_decay"] = row.decay[dims]
    elif row.built_in_decay:
        _check_built_in_decay(function, row.built_in_decay, given.pop("log_decay", None))
    theirs = {**_renamed(given, names), **row.constants, "output_final_state": True}
    return {**_with_state_transposed(theirs), "state_v_first": True} if state_v_first else theirs


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
    row = _described(function, state_v_first)
    theirs.pop("output_final_state", None)
    for name, value in row.constants.items():
        came = theirs.pop(name, "nothing")
        require(came == value, name, f"{came}", f"{value}")
    given = {name: x for name, x in theirs.items() if x is not None}
    own = {name: ours for ours, name in {**row.names, **OPTIONAL}.items()}
    decays = [name for name in given if name in row.decay.values()]
    require(len(decays) < 2, "log_decay", " and ".join(decays), "one of them only")
    ours = _renamed(given, own | dict.fromkeys(decays, "log_decay"))
    if row.built_in_decay:
        q = ours["q"]
        ours["log_decay"] = row.built_in_decay(q.shape[2]).to(q.device, compute_dtype(q))
    to_fla(function, **ours)  # refuses a decay that the function does not have
    return _with_state_transposed(ours) if state_v_first else ours


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


def transpose_state(state: Float[Tensor, "B H K V"]) -> Float[Tensor, "B H V K"]:
    """Swap the last two axes of a state: Mamba-2 keeps V first, and FLA with ``state_v_first=True``.

    Args:
        state: ``[B, H, K, V]``, or ``[B, H, V, K]``: the function is its own inverse.

    Returns:
        ``[B, H, V, K]``, a view.

    Raises:
        ValueError: the state has not four dimensions.

    Source:
        none: a change of layout.

    Example:
        >>> list(transpose_state(torch.zeros(1, 2, 3, 4)).shape)
        [1, 2, 4, 3]
    """
    require(state.ndim == 4, "state", f"shape {list(state.shape)}", "[B, H, K, V]")
    return state.mT


def swap_time_and_heads(x: Float[Tensor, "B T H ..."]) -> Float[Tensor, "B H T ..."]:
    """Put heads before time, as torch's own attention and some of FLA's naive forms have them, or back.

    Args:
        x: ``[B, T, H, ...]``, or ``[B, H, T, ...]``: the function is its own inverse.

    Returns:
        ``[B, H, T, ...]``, a view.

    Raises:
        ValueError: x has fewer than three dimensions.

    Source:
        none: a change of layout.

    Example:
        >>> list(swap_time_and_heads(torch.zeros(1, 5, 2, 3)).shape)
        [1, 2, 5, 3]
    """
    require(x.ndim >= 3, "x", f"shape {list(x.shape)}", "[B, T, H, ...]")
    return x.transpose(1, 2)


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


def _described(function: str, state_v_first: bool = False) -> FLAFunction:
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


def _renamed(arguments: Arguments, names: Mapping[str, str]) -> Arguments:
    """Return every argument under its new name, and refuse unknown and missing ones."""
    for name in arguments:
        require(name in names, name, "an argument", "one of " + ", ".join(names))
    for name in names:
        require(name in arguments or name in OPTIONAL, name, "nothing", "a tensor")
    return {names[name]: x for name, x in arguments.items()}


def _with_state_transposed(arguments: Arguments) -> Arguments:
    """Return the arguments, ``initial_state`` with its last two axes swapped."""
    return {name: transpose_state(x) if name == "initial_state" else x for name, x in arguments.items()}


# --- Mamba-1: the selective scan ---------------------------------------------------------------------------


def to_selective_scan(*groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Translate the arguments of our selective scan into those of Mamba's ``selective_scan_fn``.

    Delta is already positive: leave ``delta_softplus=False``. There is no start state.

    Args:
        groups: one dictionary for each of G groups of channels that share B and C: u, delta
            ``[B, T, D/G]``, A ``[D/G, N]``, B, C ``[B, T, N]``, and D ``[D/G]`` or no D.

    Returns:
        u, delta ``(B, D, L)``, A ``(D, N)``, B, C ``(B, N, L)`` or, with G > 1, ``(B, G, N, L)``, D ``(D)``.

    Raises:
        ValueError: a group lacks an argument or has one too many.

    Source:
        ``selective_scan_ref`` in the Mamba repository; Gu and Dao 2023, arXiv 2312.00752.

    Example:
        >>> u, A, B = torch.ones(1, 5, 3), -torch.ones(3, 2), torch.ones(1, 5, 2)
        >>> theirs = to_selective_scan({"u": u, "delta": u, "A": A, "B": B, "C": B})
        >>> list(theirs["u"].shape), list(theirs["B"].shape)
        ([1, 3, 5], [1, 2, 5])
    """
    names = set(groups[0]) if groups else set()
    fits = names | {"D"} == set("ABCD") | {"u", "delta"} and all(set(x) == names for x in groups)
    require(fits, "groups", " and ".join(str(sorted(x)) for x in groups), "u, delta, A, B, C and D or no D")
    joined = {name: torch.cat([x[name].mT for x in groups], 1) for name in ("u", "delta")}
    joined |= {name: torch.cat([x[name] for x in groups]) for name in "AD" if name in names}
    stacked = {name: torch.stack([x[name].mT for x in groups], 1) for name in "BC"}  # (B, G, N, L)
    return joined | {name: x if len(groups) > 1 else x[:, 0] for name, x in stacked.items()}


def from_selective_scan(
    u: Float[Tensor, "B D L"],
    delta: Float[Tensor, "B D L"],
    A: Float[Tensor, "D N"],
    B: Tensor,
    C: Tensor,
    D: Float[Tensor, " D"] | None = None,
    *,
    delta_bias: Float[Tensor, " D"] | None = None,
    delta_softplus: bool = False,
) -> list[Arguments]:
    """Translate the arguments of Mamba's ``selective_scan_fn`` into those of our selective scan.

    Args:
        u: inputs ``(B, D, L)``.
        delta: step sizes ``(B, D, L)``, before bias and softplus.
        A: ``(D, N)`` real, negative.
        B, C: ``(B, N, L)``, or ``(B, G, N, L)`` for G groups; the first D/G channels are group 0.
        D: weight of the input in the output, ``(D)``. Default None, none.
        delta_bias: ``(D)``, added to delta. Default None, none.
        delta_softplus: whether softplus is applied to delta after the bias. Default False.

    Returns:
        One dictionary for each group: u, delta ``[B, T, D/G]``, A ``[D/G, N]``, B, C ``[B, T, N]``, and D
        ``[D/G]`` where there is one. Bias and softplus are already in delta.

    Raises:
        ValueError: B or C has another shape, for example ``(D, N)``, which does not depend on time. A
            complex A is refused by our op.

    Source:
        ``selective_scan_ref`` in the Mamba repository; Gu and Dao 2023, arXiv 2312.00752.

    Example:
        >>> u, A, B = torch.ones(1, 4, 5), -torch.ones(4, 2), torch.ones(1, 2, 2, 5)
        >>> [list(group["u"].shape) for group in from_selective_scan(u, u, A, B, B)]
        [[1, 5, 2], [1, 5, 2]]
    """
    B, C = (x[:, None] if x.ndim == 3 else x for x in (B, C))
    for name, x in (("B", B), ("C", C)):
        fits = x.ndim == 4 and u.shape[1] % x.shape[1] == 0
        require(fits, name, f"shape {list(x.shape)}", "(B, N, L), or (B, G, N, L) with D a multiple of G")
    require(B.shape == C.shape, "C", f"shape {list(C.shape)}", f"the shape of B, {list(B.shape)}")
    if delta_bias is not None:
        require_shape(delta_bias, "delta_bias", u.shape[1:2])
        delta = delta.to(compute_dtype(u)) + delta_bias[:, None]
    if delta_softplus:
        delta = softplus(delta.to(compute_dtype(u)))
    G = B.shape[1]
    parts = {"u": u.mT.chunk(G, -1), "delta": delta.mT.chunk(G, -1), "A": A.chunk(G)}
    parts |= {"B": B.mT.unbind(1), "C": C.mT.unbind(1)} | ({} if D is None else {"D": D.chunk(G)})
    return [{name: part[i] for name, part in parts.items()} for i in range(G)]


def mamba_selective_scan(
    *arguments: Any, z: Float[Tensor, "B D L"] | None = None, **options: Any
) -> tuple[Float[Tensor, "B D L"], Float[Tensor, "B D N"]]:
    """Compute Mamba's ``selective_scan_fn`` with our op.

        h_t = exp(delta_t A) h_{t-1} + delta_t B_t u_t,    y_t = (C_t h_t + D u_t) silu(z_t)

    Args:
        arguments: u, delta, A, B, C and D as ``from_selective_scan`` takes them.
        z: gate ``(B, D, L)``. Default None, no gate.
        options: ``delta_bias`` and ``delta_softplus``, as ``from_selective_scan`` takes them.

    Returns:
        y ``(B, D, L)`` and the last state ``(B, D, N)``.

    Raises:
        ValueError: a shape does not fit.

    Source:
        ``selective_scan_ref`` in the Mamba repository; Gu and Dao 2023, arXiv 2312.00752.

    Example:
        >>> u, A, B = torch.ones(1, 3, 5), -torch.ones(3, 2), torch.ones(1, 2, 5)
        >>> y, state = mamba_selective_scan(u, u, A, B, B, z=u)
        >>> list(y.shape), list(state.shape)
        ([1, 3, 5], [1, 3, 2])
    """
    results = [associative_selective_scan(**x) for x in from_selective_scan(*arguments, **options)]
    y = torch.cat([result.output for result in results], -1).mT
    if z is not None:
        require_shape(z, "z", tuple(y.shape))
        y = y * silu(z)
    return y, torch.cat([result.state for result in results], 1)


# --- Mamba-2: SSD ------------------------------------------------------------------------------------------


def to_ssd(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    log_decay: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Float[Tensor, "B H K V"] | None = None,
) -> dict[str, Tensor]:
    """Translate the arguments of linear attention into those of ``ssd_minimal_discrete``.

        X = v,    A = log_decay,    B = k,    C = scale q

    Args:
        q, k: queries and keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``.
        log_decay: natural logarithms <= 0, ``[H]`` or ``[B, T, H]``. Default None, no decay.
        scale: factor of the scores. Default None, ``K ** -0.5``.
        initial_state: ``[B, H, K, V]``. Default None, zeros.

    Returns:
        X ``(b, l, h, p)``, A ``(b, l, h)``, B, C ``(b, l, h, n)`` and, where there is a start state,
        ``initial_states`` ``(b, 1, h, p, n)``. The function needs l to be a multiple of its ``block_len``.

    Raises:
        ValueError: a shape does not fit, or the decay is per channel, ``[B, T, H, K]``.

    Source:
        Dao and Gu 2024, arXiv 2405.21060, listing 1.

    Example:
        >>> q = k = v = torch.ones(1, 8, 2, 4)
        >>> {name: list(x.shape) for name, x in to_ssd(q, k, v).items()}
        {'X': [1, 8, 2, 4], 'A': [1, 8, 2], 'B': [1, 8, 2, 4], 'C': [1, 8, 2, 4]}
    """
    check_qkv(q, k, v)
    log_decay = q.new_zeros(q.shape[2]) if log_decay is None else log_decay
    check_log_decay(log_decay, q)
    require(log_decay.ndim < 4, "log_decay", "a decay per channel", "[H] or [B, T, H]")
    C = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    theirs = {"X": v, "A": log_decay.expand(q.shape[:3]), "B": k, "C": C}
    if initial_state is None:
        return theirs
    return {**theirs, "initial_states": transpose_state(initial_state)[:, None]}


def from_ssd(X: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_states: Tensor | None = None) -> Arguments:
    """Translate the arguments of ``ssd_minimal_discrete`` into those of linear attention.

    In terms of Mamba-2's own x, dt and A, X is ``x dt`` and A here is ``A dt``.

    Args:
        X: ``(b, l, h, p)``.
        A: log decays ``(b, l, h)``.
        B, C: ``(b, l, g, n)`` for g groups of heads, as in Mamba-2; the first h/g heads are group 0.
        initial_states: ``(b, 1, h, p, n)``. Default None, zeros.

    Returns:
        q, k ``[B, T, H, K]``, v ``[B, T, H, V]``, log_decay ``[B, T, H]``, ``scale=1.0`` and, where it was
        given, initial_state ``[B, H, K, V]``.

    Raises:
        ValueError: B and C differ in shape, or g does not divide h.

    Source:
        Dao and Gu 2024, arXiv 2405.21060, listing 1.

    Example:
        >>> X, A, B = torch.ones(1, 8, 2, 4), -torch.ones(1, 8, 2), torch.ones(1, 8, 1, 3)
        >>> ours = from_ssd(X, A, B, B)
        >>> list(ours["q"].shape), ours["scale"]
        ([1, 8, 2, 3], 1.0)
    """
    H = X.shape[2]
    fits = B.shape == C.shape and H % B.shape[2] == 0
    require(fits, "B, C", f"shapes {list(B.shape)}, {list(C.shape)}", f"(b, l, g, n), g dividing {H}")
    q, k = (x.repeat_interleave(H // x.shape[2], 2) for x in (C, B))
    ours = {"q": q, "k": k, "v": X, "log_decay": A, "scale": 1.0}
    if initial_states is None:
        return ours
    return {**ours, "initial_state": transpose_state(initial_states[:, 0])}
