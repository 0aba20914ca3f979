"""Translate our arguments into those of Mamba's selective scan and of SSD, and back.

Only names, the order of axes and the place of a factor change, never what is computed. What the other side
has no place for is refused with a ``ValueError``; nothing is dropped in silence.

* Mamba-1 puts channels before time; groups of channels may have their own B and C.
* SSD, the heart of Mamba-2, writes C, B, X for q, k, v, has no scale and keeps the value axis of its state
  first.

Sources: ``selective_scan_ref`` in the Mamba repository; Dao and Gu 2024 (arXiv 2405.21060, listing 1) for
``ssd_minimal_discrete``.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.functional import silu, softplus

from linattn_benchmarks.translation.layouts import transpose_state
from linattn_ref.ops import associative_selective_scan
from linattn_ref.ops.shapes import Float, Tensor
from linattn_ref.ops.validation import (
    check_log_decay,
    check_qkv,
    choose_compute_dtype,
    require,
    require_shape,
)

Arguments = dict[str, Any]

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
        delta = delta.to(choose_compute_dtype(u)) + delta_bias[:, None]
    if delta_softplus:
        delta = softplus(delta.to(choose_compute_dtype(u)))
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
