"""Make tasks that a model solves by looking something up: multi-query recall, a needle in a haystack.

Multi-query recall is that of Arora et al. 2023 (Zoology, arXiv 2312.04927): pairs of a key and a value, then
keys again among other tokens, and after each its value is asked for. The needle is hidden in bytes of text.
Its two modes are those of arXiv 2406.16690, section 4.3: "easy" plants the question with its answer, so that
finding the same words again is enough; "standard" plants the answer alone.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from linattn_ref.ops.validation import require

IGNORED = -100  # a target that is not asked for, as torch's cross_entropy has it
KEY_LENGTH, ANSWER_LENGTH = 6, 6  # letters and digits of a needle
Mode = Literal["easy", "standard"]


class Recall(NamedTuple):
    """Hold inputs and targets, int64 [B, T]; targets are ``IGNORED`` where nothing is asked."""

    inputs: Tensor
    targets: Tensor


def multi_query_recall(
    batch_size: int,
    seq_len: int,
    n_pairs: int,
    generator: torch.Generator,
    *,
    vocab_size: int = 8192,
    n_passes: int = 1,
    power: float = 0.01,
    random_fillers: bool = True,
) -> Recall:
    """Draw sequences of multi-query recall: pairs of key and value, then each key again, once.

    Keys are drawn from the lower half of the vocabulary (0 left out), values from the upper half; no two of a
    sequence are equal. Pairs come first, ``n_passes`` times in the same order (reading twice: Arora et al.
    2024, arXiv 2407.05483). A key then stands at one of the even places that follow; place i is chosen with a
    weight of i^(power - 1), so most are asked for soon. Other places hold any token, or 0.

    Args:
        batch_size: sequences, B.
        seq_len: tokens of each, T.
        n_pairs: pairs of key and value in each.
        generator: on the CPU.
        vocab_size: default 8192.
        n_passes: how often the pairs stand there before they are asked for; default 1.
        power: default 0.01; 1 asks for keys anywhere with equal chances.
        random_fillers: whether other places hold random tokens (default), or 0.

    Returns:
        inputs and targets, int64 [B, T]; a target is the value of the key at its place, else ``IGNORED``.

    Raises:
        ValueError: the sequence is too short, or the vocabulary too small.

    Source:
        arXiv 2312.04927 (Zoology), whose code has the same distribution of places.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> inputs, targets = multi_query_recall(1, 8, 2, generator, vocab_size=8, random_fillers=False)
        >>> inputs
        tensor([[3, 7, 2, 5, 3, 0, 2, 0]])
        >>> targets
        tensor([[-100, -100, -100, -100,    7, -100,    5, -100]])
    """
    context = 2 * n_pairs * n_passes
    n_places = (seq_len - context) // 2
    sizes, names = (batch_size, n_pairs, n_passes, power), "batch_size, n_pairs, n_passes, power"
    require(min(sizes[:3]) >= 1 and power > 0, names, f"{sizes}", "at least 1, and a power above 0")
    needed = f"{context + 2 * n_pairs} at least for {n_pairs} pairs in {n_passes} passes"
    require(n_places >= n_pairs, "seq_len", f"{seq_len}", needed)
    needed = f"{2 * n_pairs + 2} at least for {n_pairs} pairs"
    require(vocab_size // 2 > n_pairs, "vocab_size", f"{vocab_size}", needed)
    half = vocab_size // 2
    keys = 1 + _draw_distinct(batch_size, n_pairs, torch.ones(half - 1), generator)  # [B, N]
    values = half + _draw_distinct(batch_size, n_pairs, torch.ones(vocab_size - half), generator)  # [B, N]
    weights = torch.arange(1, n_places + 1, dtype=torch.float64) ** (power - 1)
    places = context + 2 * _draw_distinct(batch_size, n_pairs, weights, generator)  # [B, N]

    inputs = torch.zeros(batch_size, seq_len, dtype=torch.int64)
    if random_fillers:
        inputs = torch.randint(vocab_size, inputs.shape, generator=generator)
    inputs[:, :context] = torch.stack([keys, values], 2).flatten(1).repeat(1, n_passes)
    inputs.scatter_(1, places, keys)
    targets = torch.full_like(inputs, IGNORED).scatter_(1, places, values)
    return Recall(inputs, targets)


def _draw_distinct(batch_size: int, n: int, weights: Tensor, generator: torch.Generator) -> Tensor:
    """Draw different numbers from 0, one after the other with these weights: int64 [B, n]."""
    return torch.multinomial(weights.expand(batch_size, -1), n, generator=generator)


def recall_accuracy(logits: Tensor, targets: Tensor) -> float:
    """Return the share of targets that have the largest of their logits.

    Args:
        logits: [B, T, vocab].
        targets: int64 [B, T]; ``IGNORED`` does not count.

    Returns:
        A number from 0 to 1.

    Raises:
        ValueError: nothing is asked for.

    Example:
        >>> logits = torch.tensor([[[0.0, 1.0], [0.0, 1.0], [5.0, 1.0]]])
        >>> recall_accuracy(logits, torch.tensor([[1, 0, IGNORED]]))
        0.5
    """
    asked = targets != IGNORED
    require(bool(asked.any()), "targets", "none that is asked for", f"one that is not {IGNORED}")
    return (logits.argmax(-1) == targets)[asked].float().mean().item()


class Needle(NamedTuple):
    """Hold a prompt, uint8 [L], which ends with the question, and the answer, uint8 [6]."""

    prompt: Tensor
    answer: Tensor


def make_needle(
    text: Tensor,
    length: int,
    depth: float,
    generator: torch.Generator,
    *,
    mode: Mode = "standard",
    n_passes: int = 1,
) -> Needle:
    """Hide a number in a text that ends with the question for it.

    Args:
        text: uint8 [N] to hide it in; a window of it is drawn.
        length: bytes of the prompt, question included.
        depth: 0 for the beginning of the window, 1 for its end, just before the question; the needle moves
            back to the end of a word.
        generator: on the CPU.
        mode: "easy" hides the question with its answer, "standard" (default) the answer alone.
        n_passes: how often the text with the needle is read before the question (Arora et al. 2024, arXiv
            2407.05483); a prompt may be a byte or two shorter then. Default 1.

    Returns:
        The prompt and the answer.

    Raises:
        ValueError: an unknown mode, a depth or n_passes out of range, or too little length or text.

    Source:
        arXiv 2406.16690, section 4.3, for the two modes.

    Example:
        >>> text = torch.frombuffer(bytearray(b"hay " * 50), dtype=torch.uint8)
        >>> prompt, answer = make_needle(text, 120, 0.5, torch.Generator().manual_seed(0))
        >>> len(prompt), len(answer), bytes(answer.tolist()) in bytes(prompt.tolist())
        (120, 6, True)
    """
    require(mode in ("easy", "standard"), "mode", f"{mode!r}", "easy or standard")
    require(0 <= depth <= 1, "depth", f"{depth}", "a number from 0 to 1")
    require(n_passes >= 1, "n_passes", f"{n_passes}", "at least 1")
    planted, question, answer = _draw_words(mode, generator)
    n_hay = (length - len(question)) // n_passes - len(planted)
    least = f"{n_passes * len(planted) + len(question)} at least"
    came, needed = (
        f"{length} with a text of {len(text)} bytes",
        f"{least}, and as much text as is left beside it",
    )
    require(0 <= n_hay <= len(text), "length", came, needed)
    start = int(torch.randint(len(text) - n_hay + 1, (), generator=generator))
    hay = bytes(text[start : start + n_hay].tolist())
    at = round(depth * n_hay)
    if at < n_hay:
        at = _find_word_end(hay, 0, at)
    prompt = n_passes * (hay[:at] + planted + hay[at:]) + question
    return Needle(*(torch.frombuffer(bytearray(x), dtype=torch.uint8) for x in (prompt, answer)))


def insert_needles(text: Tensor, every: int, generator: torch.Generator, n: int = 1) -> Tensor:
    """Mix needles into a text to learn from: their questions are asked, and answered.

    Half of the needles are easy ones. Between a needle and its question is any share of the stretch; other
    needles may stand there.

    Args:
        text: uint8 [N].
        every: bytes of a stretch.
        generator: on the CPU.
        n: needles in each stretch; default 1.

    Returns:
        A longer text, uint8.

    Raises:
        ValueError: a stretch is too short to be cut at words, or there are no needles.

    Example:
        >>> text = torch.frombuffer(bytearray(b"hay " * 50), dtype=torch.uint8)
        >>> mixed = insert_needles(text, 100, torch.Generator().manual_seed(0))
        >>> bytes(mixed.tolist()).count(b"What is the number of") >= 2
        True
    """
    require(every >= 64 and n >= 1, "every, n", f"{every} and {n}", "at least 64 and 1")
    data, pieces = text.numpy().tobytes(), []
    n_stretches = len(data) // every
    pairs = torch.rand(n_stretches, n, 2, generator=generator, dtype=torch.float64).sort(2).values.tolist()
    easy = torch.rand(n_stretches, n, generator=generator).lt(0.5).tolist()
    end = 0
    for i in range(n_stretches):
        found: list[tuple[float, bytes]] = []  # place in the stretch, and what stands there
        for (first, second), is_easy in zip(pairs[i], easy[i], strict=True):
            planted, question, answer = _draw_words("easy" if is_easy else "standard", generator)
            found += [(first, planted), (second, question + answer + b".\n")]
        for place, words in sorted(found, key=lambda one: one[0]):
            at = _find_word_end(data, i * every, i * every + int(place * every))
            pieces += [data[end:at], words]
            end = at
    return torch.frombuffer(bytearray(b"".join([*pieces, data[end:]])), dtype=torch.uint8)


def _draw_words(mode: Mode, generator: torch.Generator) -> tuple[bytes, bytes, bytes]:
    """Draw the words of a needle: what is hidden, the question for it, and the answer."""
    key = "".join(chr(97 + i) for i in torch.randint(26, (KEY_LENGTH,), generator=generator).tolist())
    answer = "".join(map(str, torch.randint(10, (ANSWER_LENGTH,), generator=generator).tolist()))
    question = f"\nWhat is the number of {key}? The number of {key} is "
    planted = f"{question}{answer}.\n" if mode == "easy" else f"\nThe number of {key} is {answer}.\n"
    return planted.encode(), question.encode(), answer.encode()


def _find_word_end(text: bytes, start: int, end: int) -> int:
    """Return the place behind the last space between two places; the first of them if there is none."""
    return max(text.rfind(b" ", start, end), text.rfind(b"\n", start, end), start - 1) + 1
