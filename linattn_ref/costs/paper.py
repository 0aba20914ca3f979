"""Give the cost formulas of the scaling study: piece by piece as it lists them, and as in its Table 1.

Source: arXiv 2406.16690, Table 1 and appendix A.1.1 to A.1.4. Letters are the paper's: n tokens of a
sequence, d width, h heads, g hidden width of the gated MLP, B tokens of a block of linear attention, t width
in the middle of an output gate, e memory of cosFormer2's positions. They may be numbers or SymPy symbols.
One multiply-add is two FLOPs; norms and activations are not counted; a backward pass is two forward ones.
"""

from typing import Any, NamedTuple

ARCHITECTURES = ("llama", "tnl", "hgrn2", "cosformer2")


class Piece(NamedTuple):
    """Hold one line of the paper's list of costs.

    Args:
        name: what is computed.
        flops: forward FLOPs on one sequence, of one layer or, if ``once``, of the whole model.
        product: whether it is a product of matrices, which is what torch's FlopCounterMode counts; default
            True.
        once: whether the whole model has it once; default False, every layer has it.
    """

    name: str
    flops: Any
    product: bool = True
    once: bool = False


class Sizes(NamedTuple):
    """Hold what the pieces depend on, in the paper's letters.

    Args:
        n: tokens of a sequence.
        d: width.
        h: heads.
        g: hidden width of the gated MLP.
        B: tokens of a block of linear attention.
        t: width in the middle of an output gate.
        e: memory of cosFormer2's positions.
    """

    n: Any
    d: Any
    h: Any
    g: Any
    B: Any
    t: Any
    e: Any

    @classmethod
    def of_paper(cls, n: Any, d: Any, h: Any) -> "Sizes":
        """Return the sizes with g = 8 d / 3 and B = t = e = d / h, as the paper sets them throughout."""
        return cls(n, d, h, 8 * d / 3, d / h, d / h, d / h)


def count_pieces(architecture: str, sizes: Sizes) -> list[Piece]:
    """Return all costs that the paper lists for an architecture, those of RoPE and LRPE too.

    Args:
        architecture: "llama", "tnl", "hgrn2" or "cosformer2".
        sizes: numbers or SymPy symbols.

    Returns:
        A list of ``Piece``: forward FLOPs on one sequence.

    Raises:
        ValueError: for an architecture that the paper does not have.

    Source:
        arXiv 2406.16690, A.1.1 to A.1.4.

    Example:
        >>> [piece.name for piece in count_pieces("llama", Sizes.of_paper(8192, 512, 4)) if not piece.product]
        ['product in the gated MLP', 'softmax', 'rotation']
    """
    _check(architecture)
    n, d, h, g, B, t, e = sizes
    common = [
        Piece("projections in and out", 8 * n * d**2),
        Piece("gated MLP", 6 * n * d * g),
        Piece("product in the gated MLP", n * g, product=False),
    ]
    if architecture == "llama":
        return [
            *common,
            Piece("scores", 2 * n**2 * d),  # the whole table, with the half that is masked
            Piece("softmax", 3 * n**2 * h, product=False),
            Piece("weighted values", 2 * n**2 * d),
            Piece("rotation", 4 * n * d, product=False),
        ]
    rows = 2 if architecture == "cosformer2" else 1  # of the state per channel of a key: cosine and sine
    blocks = n / B
    linear = [
        *common,
        Piece("scores and values of a block", blocks * (2 * rows + 2) * B**2 * d),
        Piece("mask or decay in a block", blocks * B**2 * h, product=False),
        Piece("reading the state", blocks * rows * 2 * B * d**2 / h),
        Piece("writing the state", blocks * rows * 2 * B * d**2 / h),
        Piece("decaying or adding to the state", blocks * rows * d**2 / h, product=False),
        Piece("sum of both outputs", blocks * B * d, product=False),
    ]
    if architecture == "hgrn2":
        return [
            *linear,
            Piece("forget gate", 4 * n * d, product=False),
            Piece("lower bound of a layer", 4 * d, product=False),
        ]
    linear += [Piece("output gate", 4 * n * t * d), Piece("product with it", n * d, product=False)]
    if architecture == "tnl":
        return linear
    return [
        *linear,
        Piece("cosines of positions (LRPE)", 4 * n * d, product=False),
        Piece("positions before the first layer (TPE)", 4 * n * d * e, product=False, once=True),
    ]


def flops_per_token(architecture: str, n: Any, l: Any, d: Any, h: Any) -> Any:
    """Return the FLOPs per token, forward and backward, without embedding and output layer.

        LLaMA       72 l d^2 (1 + n / (6 d) + 5 / (18 d))
        TNL         72 l d^2 (1 + 1 / (2 h) + 5 / (18 d))
        HGRN2       72 l d^2 (1 + 1 / (3 h) + 29 / (72 d))
        cosFormer2  72 l d^2 (1 + 3 / (4 h) + 23 / (72 d)) + 12 d^2 / h

    This is as printed, and equals ``count_pieces`` with ``Sizes.of_paper`` but for three: LLaMA's softmax,
    n h / (8 d^2) in the bracket, is in the appendix alone; HGRN2's bounds, 12 d l a step, belong to no token;
    and cosFormer2's 23 / (72 d) leaves out the cosines that its appendix lists, with which it is 35 / (72 d).

    Args:
        architecture: "llama", "tnl", "hgrn2" or "cosformer2".
        n: tokens of a sequence; a number or a SymPy symbol, as all that follow.
        l: layers.
        d: width.
        h: heads.

    Returns:
        FLOPs per token; one multiply-add is two.

    Raises:
        ValueError: for an architecture that the paper does not have.

    Source:
        arXiv 2406.16690, Table 1.

    Example:
        >>> [f"{flops_per_token(name, 8192, 32, 1536, 12):.2e}" for name in ("llama", "tnl")]
        ['1.03e+10', '5.66e+09']
    """
    _check(architecture)
    factor = {
        "llama": 1 + n / (6 * d) + 5 / (18 * d),
        "tnl": 1 + 1 / (2 * h) + 5 / (18 * d),
        "hgrn2": 1 + 1 / (3 * h) + 29 / (72 * d),
        "cosformer2": 1 + 3 / (4 * h) + 23 / (72 * d),
    }[architecture]
    return 72 * l * d**2 * factor + (12 * d**2 / h if architecture == "cosformer2" else 0)


def n_parameters(architecture: str, l: Any, d: Any, h: Any, g: Any = None) -> Any:
    """Return the parameters without embedding.

        4 l d^2 + 3 l d g + more;  more = 0 (LLaMA), 2 l d^2 / h (TNL), l d (HGRN2), (2 l + 1) d^2 / h
        (cosFormer2)

    Norms are not in it: the real model has 2 l d + d more.

    Args:
        architecture: "llama", "tnl", "hgrn2" or "cosformer2".
        l: layers; a number or a SymPy symbol, as all that follow.
        d: width.
        h: heads.
        g: hidden width of the gated MLP; default None, 8 d / 3.

    Returns:
        The number of parameters.

    Raises:
        ValueError: for an architecture that the paper does not have.

    Source:
        arXiv 2406.16690, Table 1.

    Example:
        >>> n_parameters("llama", 32, 1536, 12, g=4096)
        905969664
    """
    _check(architecture)
    more = {
        "llama": 0,
        "tnl": 2 * l * d**2 / h,
        "hgrn2": l * d,
        "cosformer2": 2 * l * d**2 / h + d**2 / h,
    }[architecture]
    return 4 * l * d**2 + 3 * l * d * (8 * d / 3 if g is None else g) + more


def _check(architecture: str) -> None:
    """Raise a ``ValueError`` for an architecture that the paper does not have."""
    if architecture not in ARCHITECTURES:
        raise ValueError(f"architecture: got {architecture!r}, expected one of {ARCHITECTURES}")
