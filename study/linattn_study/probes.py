"""Probe a finished model: its loss by position, on text read twice, on strings seen before; needles.

A model is probed within its run, since it may not outlive the machine that trained it; what is kept is rows.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from linattn_ref.training.tasks.recall import ANSWER_LENGTH, IGNORED, Needle, make_needle
from linattn_study import corpora
from linattn_study.loop import Loop
from linattn_study.run_dir import ProbeRow

LENGTHS = (1, 4)  # times the length trained on
HAYSTACKS = (0.25, 0.5, 1, 2, 4)  # lengths of texts with needles, times the length trained on
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
NEEDLES = {"needle-easy": ("easy", 1), "needle-standard": ("standard", 1), "needle-twice": ("standard", 2)}
PROMPTS = 32  # for each length and depth, where 2^19 bytes of validation are allowed; with fewer, fewer
REPEATED = 8  # bytes: a longer string seen before is one that could be looked up
READ_TWICE, AT_FIRST = 64, 16  # windows of ``measure_second_reading``, and bytes that it leaves out
EMPTY_ROW: ProbeRow = dict.fromkeys(
    ("probe", "length", "first", "last", "depth", "share", "loss", "accuracy")
)


def probe(loop: Loop) -> list[ProbeRow]:
    """Return a row for each question to a trained model; losses are means in nats per byte.

    "text": validation text, by ranges of positions. "twice": the first half of each window, and then the same
    again, which is known to a model that can look it up. "repeated": bytes that end a string of ``REPEATED``
    + 1 bytes that was in the window before; "new": all others; ``share`` is how many of all. "needle-...":
    loss and accuracy (all of its digits right) of the answer, see ``tasks.recall``; in "needle-twice" the
    text is read twice before it is asked for. A model of recall is asked for that: "recall-4" has four pairs,
    its accuracy is the share of values that are right.
    """
    rows: list[ProbeRow] = []
    T = loop.trial.seq_len
    if corpora.parse_recall_length(loop.trial.corpus):
        return [_probe_recall(loop, n_pairs) for n_pairs in corpora.PAIRS]
    for length in (T * times for times in LENGTHS):
        windows = _take_windows(loop, length)
        if windows is None:
            continue  # too little text to be asked
        losses = _compute_losses(loop, windows)
        rows += _average_by_range("text", length, losses.mean(0))
        if length == T:
            half = windows[:, : length // 2]
            rows += _average_by_range(
                "twice", length, _compute_losses(loop, torch.cat([half, half, half[:, :1]], 1)).mean(0)
            )
        seen = mark_seen_before(windows, REPEATED + 1)[:, 1:]
        for name, mask in (("repeated", seen), ("new", ~seen)):
            row = {"probe": name, "length": length, "first": 0, "last": length - 1}
            loss = losses[mask].mean().item() if mask.any() else None
            rows.append(EMPTY_ROW | row | {"loss": loss, "share": mask.float().mean().item()})
    for name, length in ((name, round(T * times)) for name in NEEDLES for times in HAYSTACKS):
        rows += _probe_needles(loop, name, length)
    return rows


def measure_second_reading(loop: Loop) -> dict[str, float]:
    """Return the loss on text that is read for the first time, and for the second, in nats per byte.

    The first half of each validation window, and then the same again; means over the same bytes of either
    half, of which the first ``AT_FIRST`` are left out (of short windows, a quarter of the half).
    """
    half_length = loop.trial.seq_len // 2
    windows = loop.windows.validation
    half = windows[:: max(1, len(windows) // READ_TWICE)][:READ_TWICE, :half_length]
    losses = _compute_losses(loop, torch.cat([half, half], 1)).mean(0)  # at i: of byte i + 1
    skipped = max(1, min(AT_FIRST, half_length // 4))
    first, second = losses[: half_length - 1], losses[half_length:]
    return {
        "first_reading_loss": first[skipped - 1 :].mean().item(),
        "second_reading_loss": second[skipped - 1 :].mean().item(),
    }


def _take_windows(loop: Loop, length: int) -> Tensor | None:
    """Return windows of validation text, [n, length + 1], spread evenly; None if there is too little."""
    text = loop.windows.validation_text
    n = max(1, min(loop.trial.validation_tokens, len(text) - 1) // length)
    if len(text) <= length:
        return None
    starts = torch.arange(n) * ((len(text) - 1 - length) // max(1, n - 1))
    return text[(starts[:, None] + torch.arange(length + 1)).to(text.device)]


@torch.no_grad()
def _compute_losses_and_hits(loop: Loop, windows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss at each position and whether the likeliest byte is the right one, [n, length] each."""
    loop.model.eval()
    losses, hits = [], []
    for some in windows.split(max(1, loop.trial.tokens_per_step // windows.shape[1])):
        inputs, targets = loop.windows.split_windows(some)
        with loop.autocast():
            logits, _ = loop.model(inputs)
        losses.append(F.cross_entropy(logits.float().transpose(1, 2), targets, reduction="none"))
        hits.append(logits.argmax(-1) == targets)
    return torch.cat(losses), torch.cat(hits)


def _probe_recall(loop: Loop, n_pairs: int) -> ProbeRow:
    """Ask for recall in sequences that no model was trained on, the same for all."""
    T = loop.trial.seq_len
    n, generator = max(1, loop.trial.validation_tokens // T), torch.Generator().manual_seed(100 + n_pairs)
    windows = corpora.draw_recall_windows(T, n_pairs, n, generator).to(loop.device)
    losses, hits = _compute_losses_and_hits(loop, windows)
    asked = loop.windows.split_windows(windows)[1] != IGNORED
    answers = {"loss": losses[asked].mean().item(), "accuracy": hits[asked].float().mean().item()}
    return EMPTY_ROW | {"probe": f"recall-{n_pairs}", "length": T, "first": 0, "last": T - 1} | answers


def _compute_losses(loop: Loop, windows: Tensor) -> Tensor:
    """Return the loss at each position of windows, [n, length]."""
    return _compute_losses_and_hits(loop, windows)[0]


# --- strings seen before ------------------------------------------------------------------------------------


def mark_seen_before(windows: Tensor, n: int) -> Tensor:
    """Mark where the n bytes that end here stand somewhere before in the window.

    Args:
        windows: uint8 [B, L].
        n: length of the strings.

    Returns:
        bool [B, L].

    Example:
        >>> mark_seen_before(torch.tensor([[1, 2, 3, 1, 2]], dtype=torch.uint8), 2)
        tensor([[False, False, False, False,  True]])
    """
    L = windows.shape[1]
    seen = torch.zeros(windows.shape, dtype=torch.bool, device=windows.device)
    if n > L:
        return seen
    base = 0x9E3779B97F4A7C15 - 2**64  # odd; products wrap around, and two strings in 2^64 meet
    code = torch.zeros_like(windows[:, n - 1 :], dtype=torch.int64)
    for i in range(n):
        code = code * base + windows[:, i : L - n + 1 + i] + 1
    ordered, order = code.sort(dim=1, stable=True)
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    seen[:, n - 1 :] = torch.zeros_like(again).scatter(1, order, again)
    return seen


# --- needles ------------------------------------------------------------------------------------------------


def _probe_needles(loop: Loop, name: str, length: int) -> list[ProbeRow]:
    """Hide needles at every depth, the same for every model; none where they are too long for the text."""
    mode, n_passes = NEEDLES[name]
    text = loop.windows.validation_text.cpu()
    n = max(1, min(PROMPTS, loop.trial.validation_tokens * PROMPTS >> 19))
    generator = torch.Generator().manual_seed(length)
    try:
        needles: list[Needle] = [
            make_needle(text, length, depth, generator, mode=mode, n_passes=n_passes)  # type: ignore[arg-type]
            for depth in DEPTHS
            for _ in range(n)
        ]
    except ValueError:  # too little length, or text
        return []
    windows = torch.stack([torch.cat([x.prompt, x.answer]) for x in needles]).to(loop.device)
    losses, hits = (x[:, -ANSWER_LENGTH:].cpu().split(n) for x in _compute_losses_and_hits(loop, windows))
    about = {"probe": name, "length": length, "first": length, "last": length + ANSWER_LENGTH - 1}
    return [
        EMPTY_ROW
        | about
        | {"depth": d, "loss": loss.mean().item(), "accuracy": answered.all(1).float().mean().item()}
        for d, loss, answered in zip(DEPTHS, losses, hits, strict=True)
    ]


# --- ranges of positions ------------------------------------------------------------------------------------


def _average_by_range(name: str, length: int, losses: Tensor) -> list[ProbeRow]:
    """Return a row for each range of positions, from the losses by position."""
    means = losses.cpu()
    return [
        EMPTY_ROW
        | {"probe": name, "length": length, "first": a, "last": b - 1, "loss": means[a:b].mean().item()}
        for a, b in iterate_ranges(length, half=name == "twice")
    ]


def iterate_ranges(length: int, half: bool = False) -> Iterator[tuple[int, int]]:
    """Yield ranges [a, b) of positions that double: 0, 1, 2-3, 4-7, ...

    Args:
        length: of the sequence.
        half: whether each half of the sequence has its own ranges; default False.

    Example:
        >>> list(iterate_ranges(6))
        [(0, 1), (1, 2), (2, 4), (4, 6)]
    """
    if half:
        yield from iterate_ranges(length // 2)
        yield from ((a + length // 2, b + length // 2) for a, b in iterate_ranges(length // 2))
        return
    a = 0
    while a < length:
        b = min(max(1, 2 * a), length)
        yield a, b
        a = b
