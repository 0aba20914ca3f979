"""Rosetta: our arguments in the layouts of flash-linear-attention (FLA) and of Mamba, there and back.

Only names, the order of axes and the place of a factor change, never what is computed. What the other side
has no place for is refused with a ``ValueError``; nothing is dropped in silence.

* FLA has our axes and other names: ``chunk_gla(**to_fla("chunk_gla", q=q, k=k, v=v, log_decay=g))``.
* Mamba-1 puts channels before time; groups of channels may have their own B and C.
* SSD, the heart of Mamba-2, writes C, B, X for q, k, v, has no scale and keeps its state value first.

Sources: fla-core 0.6.0 for FLA; ``selective_scan_ref`` in the Mamba repository; Dao and Gu 2024 (arXiv
2405.21060, listing 1) for ``ssd_minimal_discrete``.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch.nn.functional import silu, softplus

from linattn_ref.ops import LinearResult, associative_selective_scan
from linattn_ref.ops.inputs import check_log_decay, check_qkv, compute_dtype, require, require_shape
from linattn_ref.ops.shapes import Float, Tensor

Arguments = dict[str, Any]

# --- FLA ---------------------------------------------------------------------------------------------------


class FLANames(NamedTuple):
    """What a function of FLA calls our arguments.

    ``decay`` is what it calls ``log_decay``, by number of dimensions: 1 is ``[H]``, 3 is ``[B, T, H]``, 4 is
    ``[B, T, H, K]``; empty, it has none. ``besides`` has to be said because its default is another model.
    """

    names: Mapping[str, str]
    decay: Mapping[int, str] = {}
    besides: Mapping[str, Any] = {}
    state_v_first: bool = False  # it has the option to keep its state [B, H, V, K]


OPTIONAL = {"scale": "scale", "initial_state": "initial_state"}  # called so everywhere
_QKV = {"q": "q", "k": "k", "v": "v"}
_DELTA = {**_QKV, "beta": "beta"}
_RWKV6 = {"q": "r", "k": "k", "v": "v", "bonus": "u"}

_BOTH_FORMS = {  # chunk_, fused_recurrent_
    "linear_attn": FLANames(_QKV, besides={"normalize": False}),
    "simple_gla": FLANames(_QKV, {1: "g_gamma", 3: "g"}, state_v_first=True),
    "delta_rule": FLANames(_DELTA),
    "gated_delta_rule": FLANames(_DELTA, {3: "g"}, state_v_first=True),
    "kda": FLANames(_DELTA, {4: "g"}, state_v_first=True),
    "rwkv6": FLANames(_RWKV6, {4: "w"}),
}
FLA = {f"{form}_{name}": row for name, row in _BOTH_FORMS.items() for form in ("chunk", "fused_recurrent")}
FLA["chunk_gla"] = FLANames(_QKV, {4: "g"}, state_v_first=True)
FLA["fused_recurrent_gla"] = FLANames(_QKV, {4: "gk"}, state_v_first=True)


def to_fla(function: str, *, state_v_first: bool = False, **ours: Any) -> Arguments:
    """Keyword arguments of FLA's ``function`` from those of our op: q, k, v ``[B, T, H, .]`` and the rest.

    None is left out, since both sides take it for the same default. ``output_final_state=True`` is added: our
    ops always return the state.
    """
    row = _row(function, state_v_first)
    given = {name: x for name, x in ours.items() if x is not None}
    names = {**row.names, **OPTIONAL}
    if row.decay:
        dims = given["log_decay"].ndim if "log_decay" in given else 0
        require(dims in row.decay, "log_decay", f"{dims} dimensions", " or ".join(map(str, row.decay)))
        names["log_decay"] = row.decay[dims]
    theirs = {**_renamed(given, names), **row.besides, "output_final_state": True}
    return {**_turned(theirs), "state_v_first": True} if state_v_first else theirs


def from_fla(function: str, *, state_v_first: bool = False, **theirs: Any) -> Arguments:
    """Arguments of our op from those of FLA's ``function``: the inverse of ``to_fla``."""
    row = _row(function, state_v_first)
    theirs.pop("output_final_state", None)
    for name, value in row.besides.items():
        came = theirs.pop(name, "nothing")
        require(came == value, name, f"{came}", f"{value}")
    given = {name: x for name, x in theirs.items() if x is not None}
    own = {name: ours for ours, name in {**row.names, **OPTIONAL}.items()}
    decays = [name for name in given if name in row.decay.values()]
    require(len(decays) < 2, "log_decay", " and ".join(decays), "one of them only")
    ours = _renamed(given, own | dict.fromkeys(decays, "log_decay"))
    to_fla(function, **ours)  # refuses a decay that the function does not have
    return _turned(ours) if state_v_first else ours


def from_result(result: tuple[Tensor, Tensor | None], *, state_v_first: bool = False) -> LinearResult:
    """FLA's ``(o, final_state)`` as ours; or SSD's ``(Y, final_state)``, with ``state_v_first=True``."""
    output, state = result
    if state is None:
        raise ValueError("final_state: got None, expected a tensor; FLA gives it if output_final_state=True")
    return LinearResult(output, v_first(state) if state_v_first else state)


def v_first(state: Float[Tensor, "B H K V"]) -> Float[Tensor, "B H V K"]:
    """The state as Mamba-2 keeps it, and FLA with ``state_v_first=True``. Its own inverse."""
    require(state.ndim == 4, "state", f"shape {list(state.shape)}", "[B, H, K, V]")
    return state.mT


def heads_first(x: Float[Tensor, "B T H ..."]) -> Float[Tensor, "B H T ..."]:
    """As torch's own attention and some of FLA's naive forms want it. Its own inverse."""
    require(x.ndim >= 3, "x", f"shape {list(x.shape)}", "[B, T, H, ...]")
    return x.transpose(1, 2)


def to_fla_normalised(state: Float[Tensor, "B H K V+1"]) -> tuple[Tensor, Tensor]:
    """The state of ``normalised`` as FLA's with ``normalize=True``: ``[B, H, K, V]`` and ``[B, 1, H, K]``.

    Our last column, the sum of the keys, is its ``z_state``. FLA adds 1e-10 to the denominator, we ``eps``,
    1e-6 unless told; and its scores have a scale where ours have 1, so that only ``eps=0`` is the same.
    """
    require(state.ndim == 4, "state", f"shape {list(state.shape)}", "[B, H, K, V + 1]")
    return state[..., :-1], state[..., -1][:, None]


def from_fla_normalised(state: tuple[Tensor, Tensor]) -> Float[Tensor, "B H K V+1"]:
    """The inverse: ``z_state`` becomes the last column."""
    kv, z = state
    fits = kv.ndim == 4 and z.shape == (kv.shape[0], 1, *kv.shape[1:3])
    require(fits, "state", f"shapes {list(kv.shape)}, {list(z.shape)}", "[B, H, K, V], [B, 1, H, K]")
    return torch.cat([kv, z[:, 0, ..., None]], -1)


def _row(function: str, state_v_first: bool) -> FLANames:
    require(function in FLA, "function", repr(function), "one of " + ", ".join(FLA))
    has = FLA[function].state_v_first or not state_v_first
    require(has, "state_v_first", "True", f"False: {function} has no such option")
    return FLA[function]


def _renamed(arguments: Arguments, names: Mapping[str, str]) -> Arguments:
    """Every argument under its new name; none unknown, none missing."""
    for name in arguments:
        require(name in names, name, "an argument", "one of " + ", ".join(names))
    for name in names:
        require(name in arguments or name in OPTIONAL, name, "nothing", "a tensor")
    return {names[name]: x for name, x in arguments.items()}


def _turned(arguments: Arguments) -> Arguments:
    return {name: v_first(x) if name == "initial_state" else x for name, x in arguments.items()}


# --- Mamba-1: the selective scan ---------------------------------------------------------------------------


def to_selective_scan(*groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Arguments of Mamba's ``selective_scan_fn`` from ours, one set for each group of channels.

    A set is u, delta ``[B, T, D/G]``, A ``[D/G, N]``, B, C ``[B, T, N]``, and D ``[D/G]`` or no D. Theirs
    are u, delta ``(B, D, L)``, A ``(D, N)``, B, C ``(B, N, L)`` or, with G > 1, ``(B, G, N, L)``, D ``(D)``.
    Delta is already positive: leave ``delta_softplus=False``. There is no start state.
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
    """The inverse: one set of our arguments for each group, bias and softplus already in its delta.

    The first D/G channels are group 0, and so on. Refused are B or C that do not depend on time, ``(D, N)``,
    and, by our op, a complex A.
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
    """Mamba's ``selective_scan_fn`` on our op: y and the last state; arguments as above, and the gate z."""
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
    """Arguments of ``ssd_minimal_discrete`` from those of linear attention with a decay per head, or none.

    X = v ``(b, l, h, p)``, A = log decay ``(b, l, h)``, B = k and C = scale q ``(b, l, h, n)``, and
    ``initial_states (b, 1, h, p, n)``. It needs l to be a multiple of its ``block_len``.
    """
    check_qkv(q, k, v)
    log_decay = q.new_zeros(q.shape[2]) if log_decay is None else log_decay
    check_log_decay(log_decay, q)
    require(log_decay.ndim < 4, "log_decay", "a decay per channel", "[H] or [B, T, H]")
    C = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    theirs = {"X": v, "A": log_decay.expand(q.shape[:3]), "B": k, "C": C}
    return theirs if initial_state is None else {**theirs, "initial_states": v_first(initial_state)[:, None]}


def from_ssd(X: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_states: Tensor | None = None) -> Arguments:
    """The inverse, with ``scale=1.0``. In Mamba-2's own x, dt and A: X is ``x dt`` and A here is ``A dt``.

    B and C may be ``(b, l, g, n)`` for g groups of heads, as in Mamba-2; the first h/g heads are group 0.
    """
    H = X.shape[2]
    fits = B.shape == C.shape and H % B.shape[2] == 0
    require(fits, "B, C", f"shapes {list(B.shape)}, {list(C.shape)}", f"(b, l, g, n), g dividing {H}")
    q, k = (x.repeat_interleave(H // x.shape[2], 2) for x in (C, B))
    ours = {"q": q, "k": k, "v": X, "log_decay": A, "scale": 1.0}
    return ours if initial_states is None else {**ours, "initial_state": v_first(initial_states[:, 0])}
