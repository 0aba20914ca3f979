"""Plan the studies: which trials each is made of."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from linattn_ref import costs
from linattn_study.trial import ARCHITECTURES, MAIN_SIZES, SHAPES, SIZES, Trial

Overrides = tuple[tuple[str, Any], ...]

CORPORA = ("novels", "code")


# Best at a width of 128 and 256, as far as ``scaling_lr`` tells; in between and beyond, one over the width.
BEST_RATE_AT_128 = {"llama": 6e-3, "tnl": 2e-3, "hgrn2": 4e-3, "cosformer2": 2e-3}
LARGEST_RATE = 8e-3


def choose_rate(arch: str, size: str) -> float:
    """Return the learning rate of an architecture at a size."""
    _, d_model = SIZES[size]
    return min(LARGEST_RATE, BEST_RATE_AT_128[arch] * 128 / d_model)


def learning_rates() -> Sequence[Trial]:
    """Try learning rates for a small and a middle size, on a quarter of the tokens."""
    tried = {"0.8M": (1e-3, 2e-3, 4e-3, 8e-3), "6M": (2e-3, 1e-3, 4e-3)}
    return [
        _make_tuning_trial(corpus, arch, size, lr)
        for size, rates in tried.items()
        for lr in rates
        for corpus in CORPORA
        for arch in ARCHITECTURES
    ]


def learning_rate_edges() -> Sequence[Trial]:
    """Try one rate more where the best was the first or the last, and two that had been left out."""
    trials = [_make_tuning_trial(corpus, "llama", "0.8M", 16e-3) for corpus in CORPORA]
    trials += [
        _make_tuning_trial(corpus, arch, "6M", 5e-4) for arch in ("tnl", "cosformer2") for corpus in CORPORA
    ]
    trials += [_make_tuning_trial("code", "llama", "6M", 8e-3)]
    return trials + [_make_tuning_trial("code", arch, "6M", 4e-3) for arch in ("hgrn2", "cosformer2")]


def _make_tuning_trial(corpus: str, arch: str, size: str, lr: float) -> Trial:
    """Return a short trial that tests a learning rate."""
    return Trial(corpus, arch, size, lr, tokens=58_000_000, n_evaluations=12)


def scaling() -> Sequence[Trial]:
    """Train the main grid: four passes through 58 MB, prose first; then second seeds of the smaller sizes."""
    sizes = tuple(reversed(MAIN_SIZES))
    return [
        Trial(corpus, arch, size, choose_rate(arch, size), seed)
        for seed, some in ((0, sizes), (1, sizes[2:]))
        for corpus in CORPORA
        for size in some
        for arch in ARCHITECTURES
    ]


def scaling_control() -> Sequence[Trial]:
    """Read 240 MB of code once; the main grid reads 58 MB of them four times."""
    return [
        Trial("code-large", arch, size, choose_rate(arch, size))
        for size in ("14M", "6M", "2M", "0.8M")
        for arch in ARCHITECTURES
    ]


def scaling_needles() -> Sequence[Trial]:
    """Train on prose with needles."""
    return [
        Trial("novels-needles", arch, size, choose_rate(arch, size))
        for size in ("6M", "2M")
        for arch in ARCHITECTURES
    ]


def scaling_many_needles() -> Sequence[Trial]:
    """Train on both texts with eight times as many needles: one in 2,048 bytes taught no model anything."""
    return [
        Trial(f"{corpus}-many-needles", arch, size, choose_rate(arch, size))
        for corpus in CORPORA[::-1]
        for size in ("2M", "6M")
        for arch in ARCHITECTURES
    ]


def scaling_hybrid() -> Sequence[Trial]:
    """Give one block of four, as far as there are four, softmax attention."""
    mixed = (("softmax_every", 4),)
    return [
        Trial(corpus, arch, size, choose_rate(arch, size), overrides=mixed)
        for size in ("14M", "2M")
        for corpus in CORPORA
        for arch in ARCHITECTURES[1:]
    ]


def scaling_shape() -> Sequence[Trial]:
    """Compare few wide layers with many narrow ones, at 6 million parameters."""
    kinds = product(("llama", "cosformer2"), SHAPES, CORPORA)
    return [Trial(corpus, arch, size, choose_rate(arch, size)) for arch, size, corpus in kinds]


def scaling_length() -> Sequence[Trial]:
    """Train on a quarter of the main grid's length, and on four times it, with as many bytes in a step."""
    kinds = product(((256, 256), (4096, 16)), ARCHITECTURES, CORPORA)
    return [
        Trial(corpus, arch, "2M", choose_rate(arch, "2M"), seq_len=T, batch_size=B)
        for (T, B), arch, corpus in kinds
    ]


def scaling_decay() -> Sequence[Trial]:
    """Train TNL without decay, and with one from the data; the main grid has the fixed one."""
    kinds = product(("none", "data"), ("6M", "2M"), CORPORA)
    return [
        Trial(corpus, "tnl", size, choose_rate("tnl", size), overrides=(("tnl_decay", decay),))
        for decay, size, corpus in kinds
    ]


def scaling_heads() -> Sequence[Trial]:
    """Give more heads to the smallest models, which have one or two: TNL's decays are a range over heads."""
    return [
        Trial(corpus, arch, size, choose_rate(arch, size), overrides=(("n_heads", n_heads),))
        for size, n_heads in (("0.8M", 8), ("0.2M", 4))
        for corpus in CORPORA
        for arch in ARCHITECTURES
    ]


def scaling_recall() -> Sequence[Trial]:
    """Train multi-query recall: two layers of several widths, so several sizes of state, at two rates."""
    kinds = product(("1.6M", "0.4M", "0.1M"), (1e-3, 3e-3), ARCHITECTURES)
    return [
        _make_recall_trial(arch, size, lr, tokens=2**27, batch_size=128, n_evaluations=12)
        for size, lr, arch in kinds
    ]


def scaling_states() -> Sequence[Trial]:
    """Train multi-query recall with sixteen thousand steps, as two thousand were too few, and small states.

    Two layers of 256 and four of 128, with heads of 64, whose states 64 pairs fit into, and of 16.
    """
    models = (("1.6M", ()), ("0.8M", ()), ("1.6M", (("n_heads", 16),)), ("0.8M", (("n_heads", 8),)))
    return [
        _make_recall_trial(
            arch, size, lr, seed=seed, tokens=2**28, batch_size=32, n_evaluations=16, overrides=overrides
        )
        for seed, lr in product((0, 1), (4e-4, 1e-3))
        for size, overrides in models
        for arch in (ARCHITECTURES[1:] if overrides else ARCHITECTURES)
    ]


# Models of two layers whose accuracy is drawn against bytes of state: 8, 32 and 128 KiB, and whole caches.
WIDTHS_AND_HEADS: tuple[tuple[str, Overrides], ...] = (
    ("1.6M", ()),
    ("1.6M", (("n_heads", 16),)),
    ("0.1M", ()),
    ("0.1M", (("n_heads", 4),)),
)
WINDOWS = (0, 128, 32, 8)  # tokens of 512 that attention looks back, at a width of 64
RECALL_RATES = (4e-4, 1.6e-3, 8e-4, 2e-4, 3.2e-3, 1e-4)


def scaling_recall_state() -> Sequence[Trial]:
    """Train multi-query recall with two layers, at six rates: heads of 64 and 16, and attention with windows.

    The rate is chosen by the loss on the validation sequences; what is reported is the probes' accuracy.
    """
    models: list[tuple[str, str, Overrides, int]] = [("llama", "1.6M", (), 0)]
    models += [("llama", "0.1M", (("n_heads", 4),), window) for window in WINDOWS]
    models += [(arch, size, heads, 0) for size, heads in WIDTHS_AND_HEADS for arch in ARCHITECTURES[1:]]
    options: dict[str, Any] = {"tokens": 2**28, "batch_size": 32, "n_evaluations": 16}
    return [
        _make_recall_trial(arch, size, lr, seed=seed, overrides=overrides, window=window, **options)
        for seed in (0, 1)
        for lr in RECALL_RATES
        for arch, size, overrides, window in models
    ]


def _make_recall_trial(arch: str, size: str, lr: float, **options: Any) -> Trial:
    """Return a trial of multi-query recall with 512 tokens."""
    return Trial("recall-512", arch, size, lr, seq_len=512, warmup_tokens=4_000_000, **options)


def scaling_copying() -> Sequence[Trial]:
    """Train on prose with more and more of it repeated, and ask all along for text that is read twice.

    Is LLaMA's lead on code due to copying? Then it should grow where prose is made to reward copying.
    """
    texts = ("novels", "novels-repeats-10", "novels-repeats-25", "code")
    return [
        _make_copying_trial(corpus, arch, size, seed)
        for size, seed in (("2M", 0), ("6M", 0), ("2M", 1))
        for corpus in texts
        for arch in ARCHITECTURES
    ]


def scaling_copying_strong() -> Sequence[Trial]:
    """Train on prose of which half is repeated, in longer passages, from nearer and from as far as before."""
    kinds = (("2M", 0, ARCHITECTURES), ("6M", 0, ("llama", "hgrn2")), ("2M", 1, ARCHITECTURES))
    return [
        _make_copying_trial(corpus, arch, size, seed)
        for size, seed, some in kinds
        for corpus in ("novels-repeats-50", "novels-repeats-50-far")
        for arch in some
    ]


def scaling_quarter() -> Sequence[Trial]:
    """Read a quarter of the prose four times, as many bytes as ``scaling_copying`` reads of all of it once.

    Does HGRN2's lead on prose shrink since training goes on, or since the text comes again?
    """
    return [
        _make_copying_trial("novels-quarter", arch, size, seed)
        for size, seed in (("2M", 0), ("6M", 0), ("2M", 1))
        for arch in ARCHITECTURES
    ]


def scaling_apart() -> Sequence[Trial]:
    """Validate on authors and on packages of which nothing was trained on; else as in ``scaling_copying``."""
    return [
        _make_copying_trial(corpus, arch, size, seed)
        for size, seed in (("2M", 0), ("6M", 0), ("2M", 1))
        for corpus in ("novels-authors", "code-packages")
        for arch in ARCHITECTURES
    ]


def _make_copying_trial(corpus: str, arch: str, size: str, seed: int) -> Trial:
    """Return a trial of one pass that is asked for text that is read twice at every evaluation."""
    return Trial(
        corpus,
        arch,
        size,
        choose_rate(arch, size),
        seed,
        tokens=58_000_000,
        n_evaluations=16,
        second_reading=True,
    )


# Rates above the grid where the best in it was the largest: corpus, architecture, size, times, seed.
LARGER_RATES = (
    ("code", "llama", "2M", 4, 1),
    ("novels", "hgrn2", "14M", 4, 0),
    ("code", "hgrn2", "14M", 4, 0),
    ("code", "hgrn2", "14M", 8, 0),
)


def scaling_annealed() -> Sequence[Trial]:
    """Let the rate fall to zero, at several rates around the main grid's, with one product of rate and decay.

    An evaluation before the last is not that of a run of its length.
    """
    grid = [
        (corpus, arch, size, times, seed)
        for size, seed, more in (("2M", 0, (4,)), ("14M", 0, ()), ("2M", 1, ()))
        for times in (1, 2, 0.5, *more)
        for corpus in CORPORA
        for arch in ARCHITECTURES
    ]
    return [
        _make_annealed_trial(corpus, arch, size, times * choose_rate(arch, size), seed)
        for corpus, arch, size, times, seed in (*grid, *LARGER_RATES)
    ]


def _make_annealed_trial(corpus: str, arch: str, size: str, lr: float, seed: int) -> Trial:
    """Return a trial of two passes whose rate ends at zero; rate times weight decay is 2e-4."""
    return Trial(
        corpus,
        arch,
        size,
        lr,
        seed,
        tokens=116_000_000,
        n_evaluations=12,
        weight_decay=2e-4 / lr,
        schedule="linear",
    )


# FLOPs, as 6 N D -> sizes on both sides of the best one, as far as the main grid tells
ISO_BUDGETS = {
    5e13: ("0.1M", "0.15M", "0.2M", "0.3M", "0.4M-4x96"),
    2e14: ("0.2M", "0.3M", "0.4M-4x96", "0.8M", "1.5M"),
    8e14: ("0.4M-4x96", "0.8M", "1.5M", "2M", "4M"),
    3.2e15: ("2M", "4M", "6M", "9M", "14M"),
}


def scaling_isoflop() -> Sequence[Trial]:
    """Spend each of four budgets in full on each of five sizes, with a rate that falls to zero.

    All heads have a width of 32, so that no model has one head. Seeds come last, and rates before them.
    """
    return [
        _make_iso_trial(arch, size, budget, times, seed)
        for times, seed in ((1, 0), (2, 0), (1, 1), (2, 1), (0.5, 0), (0.5, 1))
        for budget, sizes in ISO_BUDGETS.items()
        for size in sizes
        for arch in ("llama", "hgrn2")
    ]


def _make_iso_trial(arch: str, size: str, budget: float, times: float, seed: int) -> Trial:
    """Return a trial on prose that costs a budget; a tenth of it is warm-up, rate times decay is 2e-4."""
    lr = times * choose_rate(arch, size)
    narrow = (("n_heads", SIZES[size][1] // 32),)
    trial = Trial(
        "novels",
        arch,
        size,
        lr,
        seed,
        n_evaluations=4,
        weight_decay=2e-4 / lr,
        overrides=narrow,
        schedule="linear",
    )
    n_params = costs.n_parameters(trial.build_model_config(), embedding=False)
    tokens = round(budget / (6 * n_params))
    return replace(trial, tokens=tokens, warmup_tokens=tokens // 10)


def reduced() -> Sequence[Trial]:
    """Train three sizes on a few million bytes: minutes on one GPU."""
    return [
        Trial(corpus, arch, size, 4e-3, tokens=16_000_000, n_evaluations=20, warmup_tokens=1_000_000)
        for size in ("0.2M", "0.8M", "2M")
        for corpus in CORPORA
        for arch in ARCHITECTURES
    ]


def laptop() -> Sequence[Trial]:
    """Train three sizes in a minute on two cores, on what a Python installation has to read."""
    return [
        Trial(
            corpus,
            arch,
            size,
            4e-3,
            tokens=24_576,
            seq_len=128,
            batch_size=8,
            n_evaluations=8,
            first_evaluation=2048,
            warmup_tokens=4096,
            validation_tokens=4096,
        )
        for size in ("0.03M", "0.1M", "0.2M")
        for corpus in ("library-prose", "library-code")
        for arch in ARCHITECTURES
    ]


STUDIES: dict[str, Callable[[], Sequence[Trial]]] = {
    "scaling_lr": learning_rates,
    "scaling_lr_edges": learning_rate_edges,
    "scaling": scaling,
    "scaling_control": scaling_control,
    "scaling_needles": scaling_needles,
    "scaling_many_needles": scaling_many_needles,
    "scaling_hybrid": scaling_hybrid,
    "scaling_heads": scaling_heads,
    "scaling_recall": scaling_recall,
    "scaling_states": scaling_states,
    "scaling_recall_state": scaling_recall_state,
    "scaling_shape": scaling_shape,
    "scaling_length": scaling_length,
    "scaling_decay": scaling_decay,
    "scaling_copying": scaling_copying,
    "scaling_copying_strong": scaling_copying_strong,
    "scaling_annealed": scaling_annealed,
    "scaling_isoflop": scaling_isoflop,
    "scaling_quarter": scaling_quarter,
    "scaling_apart": scaling_apart,
    "reduced": reduced,
    "laptop": laptop,
}
