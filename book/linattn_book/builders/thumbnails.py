"""Draw a thumbnail for every chapter of the road: small pictures, each worked out or measured, as SVG.

A thumbnail says nothing that the words beside it do not, so it is hidden from a screen reader. It stands in
one line, without an underscore or a star, because Markdown reads it.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linattn_book.plots import ARCHITECTURES
from linattn_study.findings import losses

WIDTH, HEIGHT = 64, 48
SIDE = 7.0  # of a square, with the gap after it


def draw_thumbnail(chapter: int) -> str:
    """Return the thumbnail of a chapter, from 1 to 9.

    Raises:
        ValueError: there is none for this chapter.
    """
    draw = {
        1: _draw_weights, 2: _draw_outer_product, 3: _draw_decay, 4: _draw_kernels,
        5: _draw_gates, 6: _draw_chunks, 7: _draw_tables, 8: _draw_losses, 9: _draw_readings,
    }.get(chapter)  # fmt: skip
    if draw is None:
        raise ValueError(f"chapter: there is no thumbnail for {chapter}, expected 1 to 9")
    view = f'viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true"'
    return f'<svg class="book-thumbnail" xmlns="http://www.w3.org/2000/svg" {view}>{"".join(draw())}</svg>'


def _draw_weights() -> list[str]:
    """Chapter 1: softmax attention's weights, a row for every token, over the tokens up to it."""
    q, k = np.random.default_rng(1).standard_normal((2, 6, 4))
    weights = np.exp(q @ k.T) * np.tri(6)
    weights /= weights.sum(1, keepdims=True)
    return _draw_squares(weights, 11, 3, "softmax", kept=np.tri(6) > 0)


def _draw_outer_product() -> list[str]:
    """Chapter 2: a key beside the state, a value above it, and in the state their outer product."""
    k, v = np.array([0.2, 1, 0.1, 0.4]), np.array([0.5, 0.9, 0.3, 1, 0.6])
    return [
        *_draw_squares(k[:, None], 6, 15, "softmax"), *_draw_squares(v[None], 17, 4, "softmax"),
        *_draw_squares(np.outer(k, v), 17, 15, "linear"),
    ]  # fmt: skip


def _draw_decay() -> list[str]:
    """Chapter 3: what is left of eight tokens in three heads, whose decays differ."""
    left = np.array([[decay ** (7 - t) for t in range(8)] for decay in (0.95, 0.8, 0.5)])
    rows = (_draw_squares(row[None], 4, 7 + 13 * head, "tnl") for head, row in enumerate(left))
    return [square for row in rows for square in row]


def _draw_kernels() -> list[str]:
    """Chapter 4: the convolution kernels of two states of a state space model, exp(a t) cos(w t)."""
    t = np.linspace(0, 1, 40)
    waves = [np.exp(-2.0 * t) * np.cos(4 * math.pi * t), np.exp(-4.0 * t)]
    return [
        _draw_line(4 + 56 * t, 26 - 20 * wave, arch)
        for wave, arch in zip(waves, ("mamba2", "linear"), strict=True)
    ]


def _draw_gates() -> list[str]:
    """Chapter 5: a state's rows over time, of which a gate that reads the token clears one and keeps one."""
    gates = np.array([[1, 1, 1, 0, 0.9, 0.9, 0.9, 0.9], [1, 0.6, 0.6, 0.6, 0.6, 0, 1, 1], [1] * 8])
    left = gates.cumprod(1)
    left[0, 4:], left[1, 6:] = 0.9 ** np.arange(4), 1  # written anew after it was cleared
    return _draw_squares(left, 4, 13, "delta_net")


def _draw_chunks() -> list[str]:
    """Chapter 6: the causal triangle in chunks: inside a chunk pair by pair, before it through a state."""
    rows, columns = np.indices((6, 6))
    inside = rows // 2 == columns // 2
    return _draw_squares(np.where(inside, 1.0, 0.25), 11, 3, "cosformer2", kept=rows >= columns)


def _draw_tables() -> list[str]:
    """Chapter 7: the tables of four architectures, softmax attention, TNL, HGRN2 and cosFormer2."""
    age = np.subtract.outer(np.arange(3), np.arange(3)).clip(0)
    tables = {
        "softmax": np.array([[1, 0, 0], [0.3, 0.7, 0], [0.2, 0.5, 0.3]]),
        "tnl": 0.5**age,
        "hgrn2": np.array([[1, 0, 0], [0.8, 1, 0], [0.1, 0.2, 1]]),
        "cosformer2": np.cos(0.6 * age),
    }
    places = ((6, 2), (36, 2), (6, 26), (36, 26))
    parts = (
        _draw_squares(table, x, y, arch, kept=np.tri(3) > 0)
        for (arch, table), (x, y) in zip(tables.items(), places, strict=True)
    )
    return [square for part in parts for square in part]


def _draw_losses() -> list[str]:
    """Chapter 8: measured losses on code against parameters, LLaMA and HGRN2, both logarithmic."""
    counted = {row["size"]: row["n_params"] for row in losses.load_evaluations() if row["arch"] == "llama"}
    sizes = sorted(counted, key=lambda size: counted[size])
    x = np.log([counted[size] for size in sizes])
    curves = {
        arch: np.array([np.log(losses.select_final_losses("code", arch, size)).mean() for size in sizes])
        for arch in ("llama", "hgrn2")
    }
    low, high = min(map(np.min, curves.values())), max(map(np.max, curves.values()))
    across = 6 + 52 * (x - x[0]) / (x[-1] - x[0])
    parts = []
    for arch, y in curves.items():
        up, colour = 42 - 36 * (y - low) / (high - low), "softmax" if arch == "llama" else arch
        parts.append(_draw_line(across, up, colour))
        parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2" fill="{ARCHITECTURES[colour]}"/>'
            for a, b in zip(across, up, strict=True)
        ]
    return parts


def _draw_readings() -> list[str]:
    """Chapter 9: measured losses at the first and the second reading of code, LLaMA and HGRN2."""
    rows = [row for row in losses.load_evaluations("scaling_probes") if row["probe"] == "twice"]
    parts = []
    for place, arch in enumerate(("llama", "hgrn2")):
        about = losses.select(rows, corpus="code", arch=arch, size="32M", seed=0)
        halves = [row for row in about if row["last"] in (511, 1023)]
        for half, row in enumerate(halves):
            height = 60 * row["loss"]
            parts.append(
                f'<rect x="{8 + 27 * place + 11 * half}" y="{44 - height:.1f}" width="10" '
                f'height="{height:.1f}" fill="{ARCHITECTURES["softmax" if arch == "llama" else arch]}" '
                f'fill-opacity="{1 - 0.5 * half}"/>'
            )
    return parts


def _draw_line(x: NDArray[Any], y: NDArray[Any], arch: str) -> str:
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="{ARCHITECTURES[arch]}" stroke-width="1.8"/>'


def _draw_squares(
    values: NDArray[np.float64], x: float, y: float, arch: str, kept: NDArray[np.bool_] | None = None
) -> list[str]:
    """Return a square for every number of a matrix that is ``kept``, the fuller the larger the number."""
    return [
        f'<rect x="{x + SIDE * j:.0f}" y="{y + SIDE * i:.0f}" width="{SIDE - 1:.0f}" '
        f'height="{SIDE - 1:.0f}" rx="1" fill="{ARCHITECTURES[arch]}" '
        f'fill-opacity="{0.1 + 0.9 * value:.2f}"/>'
        for (i, j), value in np.ndenumerate(values)
        if kept is None or kept[i, j]
    ]
