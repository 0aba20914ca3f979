"""The studies: which trials each is made of."""

from collections.abc import Callable, Sequence

from linattn_ref.study.trial import ARCHITECTURES, Trial

CORPORA = ("novels", "code")


TUNED = {"0.8M": (1e-3, 2e-3, 4e-3, 8e-3), "6M": (2e-3, 1e-3, 4e-3)}


def learning_rates() -> Sequence[Trial]:
    """Rates for a small and a middle size, on a quarter of the tokens."""
    return [
        Trial(corpus, arch, size, lr, tokens=58_000_000, n_evaluations=12)
        for size, rates in TUNED.items()
        for lr in rates
        for corpus in CORPORA
        for arch in ARCHITECTURES
    ]


def reduced() -> Sequence[Trial]:
    """Three sizes and a few million bytes: minutes on one GPU."""
    return [
        Trial(corpus, arch, size, 4e-3, tokens=16_000_000, n_evaluations=20, warmup_tokens=1_000_000)
        for size in ("0.2M", "0.8M", "2M")
        for corpus in CORPORA
        for arch in ARCHITECTURES
    ]


def laptop() -> Sequence[Trial]:
    """The same in a minute on two cores, with what a Python installation has to read."""
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
    "reduced": reduced,
    "laptop": laptop,
}
