"""The studies: which trials each is made of."""

from collections.abc import Callable, Sequence

from linattn_ref.study.trial import ARCHITECTURES, MAIN_SIZES, SIZES, Trial

CORPORA = ("novels", "code")


# Best at a width of 128 and 256, as far as ``scaling_lr`` tells; in between and beyond, one over the width.
BEST_RATE_AT_128 = {"llama": 6e-3, "tnl": 2e-3, "hgrn2": 4e-3, "cosformer2": 2e-3}
LARGEST_RATE = 8e-3


def rate(arch: str, size: str) -> float:
    """Learning rate of an architecture at a size."""
    _, d_model = SIZES[size]
    return min(LARGEST_RATE, BEST_RATE_AT_128[arch] * 128 / d_model)


def learning_rates() -> Sequence[Trial]:
    """Rates for a small and a middle size, on a quarter of the tokens."""
    tried: dict[str, dict[str, tuple[float, ...]]] = {
        "0.8M": dict.fromkeys(ARCHITECTURES, (1e-3, 2e-3, 4e-3, 8e-3)),
        "6M": dict.fromkeys(ARCHITECTURES, (2e-3, 1e-3, 4e-3)),
    }
    # the best of these was the first or the last of them
    tried["0.8M"] |= {"llama": (*tried["0.8M"]["llama"], 16e-3)}
    tried["6M"] |= {arch: (*tried["6M"][arch], 5e-4) for arch in ("tnl", "cosformer2")}
    return [
        Trial(corpus, arch, size, lr, tokens=58_000_000, n_evaluations=12)
        for size, rates in tried.items()
        for arch, some in rates.items()
        for lr in some
        for corpus in CORPORA
    ]


def scaling() -> Sequence[Trial]:
    """The main grid: four passes through 58 MB, prose first; then second seeds of the four smallest sizes."""
    sizes = tuple(reversed(MAIN_SIZES))
    return [
        Trial(corpus, arch, size, rate(arch, size), seed)
        for seed, some in ((0, sizes), (1, sizes[2:]))
        for corpus in CORPORA
        for size in some
        for arch in ARCHITECTURES
    ]


def scaling_control() -> Sequence[Trial]:
    """One pass through 240 MB of code, of which the main grid reads 58 MB four times."""
    return [
        Trial("code-large", arch, size, rate(arch, size))
        for size in ("14M", "6M", "2M", "0.8M")
        for arch in ARCHITECTURES
    ]


def scaling_needles() -> Sequence[Trial]:
    """Prose with needles to learn from."""
    return [
        Trial("novels-needles", arch, size, rate(arch, size))
        for size in ("6M", "2M")
        for arch in ARCHITECTURES
    ]


def scaling_hybrid() -> Sequence[Trial]:
    """One block of four, as far as there are four, with softmax attention."""
    mixed = (("softmax_every", 4),)
    return [
        Trial(corpus, arch, size, rate(arch, size), changes=mixed)
        for size in ("14M", "2M")
        for corpus in CORPORA
        for arch in ARCHITECTURES[1:]
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
    "scaling": scaling,
    "scaling_control": scaling_control,
    "scaling_needles": scaling_needles,
    "scaling_hybrid": scaling_hybrid,
    "reduced": reduced,
    "laptop": laptop,
}
