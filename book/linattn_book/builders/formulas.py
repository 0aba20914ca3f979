"""Translate formulas into LaTeX: the Python of a mixer's equation, and the plain text of its docstring.

``translate_code`` walks the syntax tree of an expression, so that a formula of the page is the expression
that the tests evaluate. What the text of an expression leaves open is read off the tensors: a quantity that
has an entry for each token gets the index t, and a product of two vectors is an element-wise one.
"""

import ast
import re
from typing import Literal, NamedTuple

import torch

from linattn_ref.config import ModelConfig
from linattn_ref.mixers import MIXERS
from linattn_ref.mixers.equation import Names

T, D, HEADS = 7, 32, 2  # tokens, a number that no other axis has; width and heads of the mixer that is asked

PARTS: tuple[Literal["gate"], Literal["write"], Literal["read"]] = ("gate", "write", "read")
ATOM, PRODUCT, SUM = range(3)  # how tightly a formula holds together
WORDS = {"bias", "slope", "anneal"}
SYMBOLS = {
    "alpha": r"\alpha", "beta": r"\beta", "gamma": r"\gamma", "delta": r"\Delta", "skip": "D",
    "bound": r"\gamma", "kappa": r"\kappa", "slope": r"\mathrm{slope}_h", "anneal": r"\mathrm{anneal}_l",
}  # fmt: skip
SPLIT = "[n_t, d_t] = "  # a row whose last entry is a sum of scores
NORMALISERS = {
    "ratio": r"n_t / (d_t + \varepsilon)",
    "bounded": r"n_t / \max(\lvert d_t \rvert, 1)",
    "quotient": "n_t / d_t",
}


class Kinds(NamedTuple):
    """Hold the names of an equation that differ from token to token, and those that are vectors."""

    by_token: set[str]
    vectors: set[str]


class Formula(NamedTuple):
    """Hold a part of a formula, and how tightly it holds together."""

    text: str
    rank: int

    def within(self, rank: int) -> str:
        """Return the text, in parentheses if it holds less tightly than ``rank``."""
        return f"({self.text})" if self.rank > rank else self.text


def find_kinds(name: str) -> Kinds:
    """Return which quantities of a mixer's equation have an axis of tokens, and which are vectors."""
    config = ModelConfig(name, d_model=D, n_layers=2, n_heads=HEADS)
    mixer, equation = MIXERS[name](config, 1, MIXERS[name].shared_module(config)), MIXERS[name].equation
    assert equation is not None
    with torch.no_grad():
        values: Names = equation.names(mixer, mixer.project(torch.ones(1, T, D), None)[0])
    shapes = {key: tuple(value.shape) for key, value in values.items() if isinstance(value, torch.Tensor)}
    by_token = {key for key, shape in shapes.items() if T in shape} | {"S"}
    vectors = {key for key, shape in shapes.items() if shape[-1] > 1}
    read = set(equation.gate.__code__.co_varnames)
    return Kinds(
        by_token | ({"G"} if read & by_token else set()), vectors | ({"G"} if read & vectors else set())
    )


def translate_equation(name: str) -> list[list[str]]:
    """Return gate, write and read of a mixer in LaTeX, each as ``translate_code`` returns it."""
    kinds, equation = find_kinds(name), MIXERS[name].equation
    assert equation is not None
    return [translate_code(equation.text(part), kinds) for part in PARTS]


def translate_code(text: str, kinds: Kinds) -> list[str]:
    """Return a Python expression in LaTeX, followed by what its numerator and denominator are.

    Raises:
        ValueError: for a name or an operation that has no symbol here.
    """
    node = ast.parse(text, mode="eval").body
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NORMALISERS:
        return [NORMALISERS[node.func.id], SPLIT + _translate(node.args[0], kinds).text]
    return [_translate(node, kinds).text]


def _translate(node: ast.expr, kinds: Kinds) -> Formula:
    match node:
        case ast.Constant(value=int() | float() as value):
            return Formula(f"{value:g}", ATOM)
        case ast.Name(id=name):
            return Formula(_name_symbol(name, kinds), ATOM)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Formula("-" + _translate(operand, kinds).within(PRODUCT), PRODUCT)
        case ast.BinOp():
            return _translate_operation(node, kinds)
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return _translate_call(function, arguments, kinds)
    raise ValueError(f"text: got {ast.unparse(node)!r}, which has no symbol")


def _name_symbol(name: str, kinds: Kinds) -> str:
    if name == "S_past":
        return "S_{t-1}"
    if len(name) > 1 and name not in SYMBOLS:
        raise ValueError(f"text: got the name {name!r}, expected a letter or one of {sorted(SYMBOLS)}")
    return SYMBOLS.get(name, name) + ("_t" if name in kinds.by_token else "")


def _translate_operation(node: ast.BinOp, kinds: Kinds) -> Formula:
    left, right = _translate(node.left, kinds), _translate(node.right, kinds)
    match node.op:
        case ast.Add():
            return Formula(f"{left.text} + {right.text}", SUM)
        case ast.Sub():
            return Formula(f"{left.text} - {right.within(PRODUCT)}", SUM)
        case ast.Mult() if right.text == "K^{-0.5}":
            return Formula(rf"{left.within(PRODUCT)} / \sqrt{{K}}", PRODUCT)
        case ast.Mult():
            both = _holds_vector(node.left, kinds) and _holds_vector(node.right, kinds)
            sign = r" \odot " if both else r"\, "
            return Formula(left.within(PRODUCT) + sign + right.within(PRODUCT), PRODUCT)
        case ast.Div():
            return Formula(
                f"{left.within(PRODUCT)} / {right.within(ATOM)}".replace("1 / 16", "1/16"), PRODUCT
            )
        case ast.Pow():
            return Formula(f"{left.within(ATOM)}^{{{right.text}}}", ATOM)
    raise ValueError(f"text: got {ast.unparse(node)!r}, an operation that has no symbol")


def _translate_call(function: str, arguments: list[ast.expr], kinds: Kinds) -> Formula:
    first, *others = (_translate(argument, kinds) for argument in arguments)
    match function:
        case "exp" if "^" in first.text or "mathrm" in first.text:
            return Formula(rf"\exp({first.text})", ATOM)
        case "exp":
            return Formula(f"e^{{{first.text}}}", ATOM)
        case "sigmoid":
            return Formula(rf"\sigma({first.text})", ATOM)
        case "paired":
            return Formula(rf"2\,\mathrm{{Re}}({first.text})", ATOM)
        case "with_ones":
            return Formula(f"[{first.text}, 1]", ATOM)
        case "eye":
            return Formula("I", ATOM)
        case "diag_embed":
            return Formula(rf"\operatorname{{Diag}}({first.text})", ATOM)
        case "outer" if _holds_vector(arguments[0], kinds):
            row = others[0].within(ATOM if r"\odot" in others[0].text else PRODUCT)
            return Formula(rf"{first.within(ATOM)}^\top {row}", PRODUCT)
        case "outer" | "dot":
            return Formula(rf"{first.within(PRODUCT)}\, {others[0].within(PRODUCT)}", PRODUCT)
    raise ValueError(f"text: got the function {function!r}, which has no symbol")


def _holds_vector(node: ast.expr, kinds: Kinds) -> bool:
    return any(isinstance(part, ast.Name) and part.id in kinds.vectors for part in ast.walk(node))


# --- the plain text of docstrings --------------------------------------------------------------------------

GREEK = {"alpha", "beta", "gamma", "Delta", "theta", "kappa", "phi", "pi"}
OPERATORS = {"silu", "relu", "gelu", "softplus", "softmax", "RMSNorm", "SRMSNorm", "GroupNorm", "Diag", "Re"}
RENAMED = {"sigmoid": r"\sigma", "phi": r"\varphi", "sum": r"\sum"}
_NATIVE = {"cos", "sin", "exp", "max", "log", "tanh"}
_REMARK = re.compile(r"\s*\b((?:per|the same)\b.*)$")
_TOKEN = re.compile(
    r"\^\((?P<power>[^()]*)\)|\^(?P<short>-?\w+(?:/\d)?)|_\{(?P<low>[^}]*)\}|_(?P<index>\w+)"
    r"|sqrt (?P<root>\w)|(?P<small>1e-\d)|(?P<word>[A-Za-z]+)|(?P<dots>\.\.\.?)|(?P<least><=)"
    r"|(?P<gap>(?<!cos)(?<!sin)(?<!log)(?<!\^T)(?<=[\w)\]']) (?=[\w(\[]))"
    r"|(?P<times> \* )|(?P<other>[\d.,=+\-/()\[\]|'<> ])"
)


def translate_block(text: str) -> str:
    """Return equations of a docstring in LaTeX, below each other; a comma and two spaces separate two."""
    clauses = [part for line in text.strip().splitlines() for part in line.strip().split(",  ")]
    lines = ["&=".join(translate_text(clause).split("=", 1)) for clause in clauses]
    return "$$\n\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}\n$$"


def translate_text(text: str) -> str:
    """Return a formula in plain text in LaTeX; words at its end that are a remark stay words.

    Raises:
        ValueError: if there is something in it that is no mathematics.
    """
    if found := _REMARK.search(text):
        return rf"{translate_text(text[: found.start()])}\quad \text{{{found[1]}}}"
    rest = _TOKEN.sub("", text)
    if rest:
        raise ValueError(f"text: got {text!r}, expected mathematics; {rest!r} is not")
    latex = "".join(map(_translate_token, _TOKEN.finditer(text)))
    latex = re.sub(r"([_^])\{(\w)\}", r"\1\2", latex)  # braces and spaces that LaTeX can do without
    latex = re.sub(r"(\w'_\w)\^", r"{\1}^", latex)  # a prime is an exponent of its own
    return re.sub(r"(\\[A-Za-z]+) +(?![A-Za-z])", r"\1", latex).strip()


def _translate_token(token: re.Match[str]) -> str:
    kind, words = token.lastgroup or "", token[token.lastgroup or 0]
    match kind:
        case "power" | "short":
            return r"^\top " if words == "T" else f"^{{{translate_text(words)}}}"
        case "low" | "index":
            return f"_{{{translate_text(words)}}}"
        case "root":
            return rf"\sqrt{{{words}}}"
        case "small":
            return f"10^{{-{words[-1]}}}"
        case "gap":
            return r"\, "
        case "times":
            return r" \odot "
        case "dots":
            return r"\dots" if words == "..." else r", \dots, "
        case "least":
            return r"\le "
        case "word":
            return _translate_word(words)
    return words


def _translate_word(word: str) -> str:
    if len(word) == 1:
        return word
    if word in RENAMED:
        return RENAMED[word]
    if word in GREEK or word in _NATIVE:
        return f"\\{word} "
    if word in OPERATORS:
        return rf"\operatorname{{{word}}}"
    if word in WORDS:
        return rf"\mathrm{{{word}}}"
    raise ValueError(f"text: got {word!r}, which is no mathematics")
