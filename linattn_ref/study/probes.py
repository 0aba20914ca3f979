"""What a finished model is asked: its loss by position, beyond its length too, and on text read twice.

It is asked within the run, since a model may not outlive the machine that trained it; what is kept is rows.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from linattn_ref.study.loop import Loop

LENGTHS = (1, 4)  # times the length trained on
Row = dict[str, Any]


def probe(loop: Loop) -> list[Row]:
    """A row for each probe, length and range of positions: mean loss in nats per byte.

    "text": validation text. "twice": the first half of each window, and then the same again; its second half
    is known to a model that can look it up.
    """
    rows: list[Row] = []
    T, text = loop.trial.seq_len, loop.validation_text
    for length in (T * times for times in LENGTHS):
        n = max(1, min(loop.trial.validation_tokens, len(text) - 1) // length)
        if len(text) <= length:
            continue  # too little text to be asked
        starts = torch.arange(n) * ((len(text) - 1 - length) // max(1, n - 1))
        windows = text[(starts[:, None] + torch.arange(length + 1)).to(text.device)]  # [n, length + 1]
        rows += _binned("text", length, _losses(loop, windows))
        if length == T:
            half = windows[:, : length // 2]
            twice = torch.cat([half, half, half[:, :1]], 1)  # [n, length + 1]
            rows += _binned("twice", length, _losses(loop, twice))
    return rows


@torch.no_grad()
def _losses(loop: Loop, windows: Tensor) -> Tensor:
    """``[length]``: mean over windows of the loss at each position."""
    loop.model.eval()
    n, length = windows.shape[0], windows.shape[1] - 1
    total = torch.zeros(length, device=loop.device)
    for some in windows.long().split(max(1, loop.trial.tokens_per_step // length)):
        with loop.autocast():
            logits, _ = loop.model(some[:, :-1])
        total += F.cross_entropy(logits.float().transpose(1, 2), some[:, 1:], reduction="none").sum(0)
    return (total / n).cpu()


def _binned(name: str, length: int, losses: Tensor) -> list[Row]:
    return [
        {"probe": name, "length": length, "first": a, "last": b - 1, "loss": losses[a:b].mean().item()}
        for a, b in bins(length, half=name == "twice")
    ]


def bins(length: int, half: bool = False) -> Iterator[tuple[int, int]]:
    """Ranges [a, b) of positions: 0, 1, 2-3, 4-7, ...; with ``half``, those of each half of the sequence."""
    if half:
        yield from bins(length // 2)
        yield from ((a + length // 2, b + length // 2) for a, b in bins(length // 2))
        return
    a = 0
    while a < length:
        b = min(max(1, 2 * a), length)
        yield a, b
        a = b
