"""The cost formulas of the scaling study, piece by piece as it lists them, and summed up as in its Table 1.

Source: arXiv 2406.16690, Table 1 and appendix A.1.1 to A.1.4. Letters are the paper's: n tokens of a
sequence, d width, h heads, g hidden width of the gated MLP, B tokens of a block of linear attention, t width
in the middle of an output gate, e memory of cosFormer2's positions. They may be numbers or SymPy symbols.
One multiply-add is two FLOPs; norms and activations are not counted; a backward pass is two forward ones.
"""

from typing import Any, NamedTuple

ARCHITECTURES = ("llama", "tnl", "hgrn2", "cosformer2")


class Piece(NamedTuple):
    """Forward FLOPs on one sequence, of one layer or, if ``once``, of the whole model.

    ``product``: a product of matrices, which is what torch's FlopCounterMode counts; all else it leaves out.
    """

    name: str
    flops: Any
    product: bool = True
    once: bool = False


class Sizes(NamedTuple):
    """What the pieces depend on."""

    n: Any
    d: Any
    h: Any
    g: Any
    B: Any
    t: Any
    e: Any

    @classmethod
    def of_paper(cls, n: Any, d: Any, h: Any) -> "Sizes":
        """g = 8 d / 3 and B = t = e = d / h, as the paper sets them throughout."""
        return cls(n, d, h, 8 * d / 3, d / h, d / h, d / h)


def pieces(architecture: str, sizes: Sizes) -> list[Piece]:
    """All that the paper lists for an architecture. RoPE's and LRPE's cost are listed, too."""
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
    """Table 1: forward and backward FLOPs per token of l layers, without embedding and output layer.

    As printed, which is ``pieces`` with ``Sizes.of_paper``, but for three: LLaMA's softmax, n h / (8 d^2) in
    the bracket, is in the appendix alone; HGRN2's bounds, 12 d l a step, belong to no token; and
    cosFormer2's 23 / (72 d) leaves out the cosines that its appendix lists, with which it is 35 / (72 d).
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
    """Table 1: parameters without embedding. g: hidden width of the gated MLP, 8 d / 3 if not given.

    Norms are not in it: the real model has 2 l d + d more.
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
    if architecture not in ARCHITECTURES:
        raise ValueError(f"architecture: got {architecture!r}, expected one of {ARCHITECTURES}")
