"""Turn arguments and results of answers into plain data, which may cross between the sandbox and the grader.

``encode`` and ``decode`` are each other's inverse; ``call_answer`` calls an answer with encoded arguments and
returns an encoded outcome. This file imports nothing of ours, so that the sandbox of the grader can load it
alone."""

import base64
import linecache
import math
import numbers
import os
import traceback
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import torch

DTYPES = ("float64", "float32", "int64", "int32", "bool")
MAX_ENTRIES = 400_000  # of all arrays of a value together
MAX_ITEMS = 10_000  # of all lists, tuples and dicts of a value together
MAX_AXES = 64  # of an array
MAX_BITS = 4_096  # of one whole number
# Files whose frames are left out of a traceback.
OUR_FILES = (
    "serialization.py",
    "watch.py",
    "kernel_memory.py",
    "kernel_front.py",
    "kernel_numbers.py",
    "kernel_code.py",
    "kernel_machine.py",
    "kernel_orders.py",
    "kernel_rules.py",
    "launches.py",
    "kernel_texts.py",
    "sandbox_worker.py",
)
MAX_MARKS = 4  # combining marks on a letter, of a text
MAX_TEXT = 2_000  # characters of a text, an error, a line of code
LONGEST_TEXT = 6 * MAX_TEXT  # when it is encoded, with lone surrogates spelt out


# --- plain data ---------------------------------------------------------------------------------------------


class Budget:
    """Count what a value holds, and refuse what is too much. Encoding and decoding count alike.

    Args:
        refusal: the exception that is raised: ``TypeError`` for an answer, ``ValueError`` for a report.
    """

    def __init__(self, refusal: type[Exception]) -> None:
        self.refusal = refusal
        self.items = self.entries = 0

    def add_items(self, kind: str, n: int) -> None:
        """Count the items of a list, tuple or dict."""
        self.items += n
        if self.items > MAX_ITEMS:
            raise self.refusal(
                f"returned a {kind} of {n:,}, {self.items:,} items in all, expected at most {MAX_ITEMS:,}"
            )

    def add_entries(self, n: int) -> None:
        """Count the entries of an array."""
        self.entries += n
        if self.entries > MAX_ENTRIES:
            raise self.refusal(
                f"returned an array of {n:,} entries, {self.entries:,} in all, expected at most "
                f"{MAX_ENTRIES:,}"
            )


def encode(value: Any, budget: Budget | None = None) -> Any:
    """Return a value as data that JSON can write.

    Args:
        value: None, a number, a text, a NumPy array, a tensor, or a list, tuple or dict of them. Tensors of
            half precision become float32; the names in a dict are texts.
        budget: what the whole value may still hold; default: all that is allowed.

    Returns:
        Numbers, texts and None as they are; all else as a dict with its type, such as ``{"tuple": [1, 2]}``.

    Raises:
        TypeError: for every other type, and for what exceeds ``MAX_ENTRIES``, ``MAX_ITEMS`` or ``MAX_BITS``.
            Its message begins with "returned", since it is shown to the author of the answer.
    """
    budget = budget or Budget(TypeError)
    if type(value) is int and value.bit_length() > MAX_BITS:
        raise TypeError(
            f"returned a whole number of {value.bit_length():,} bits, expected at most {MAX_BITS:,}"
        )
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, str):
        return make_printable(str(value))
    if isinstance(value, torch.Tensor):
        wide = value.dtype not in (torch.float64, torch.float32) and value.dtype.is_floating_point
        plain = value.detach().cpu().float() if wide else value.detach().cpu()
        return {"tensor": _encode_array(plain.resolve_conj().resolve_neg().numpy(), budget)}
    if isinstance(value, np.ndarray):
        return {"array": _encode_array(value, budget)}
    if isinstance(value, np.generic):
        return encode(value.tolist() if type(value.tolist()) is not type(value) else float(value))
    if isinstance(value, numbers.Real | Decimal):  # fractions, and numbers of a class of their own
        return float(value)
    if isinstance(value, (tuple, list, dict)):
        budget.add_items(type(value).__name__, len(value))
    if isinstance(value, (tuple, list)):
        return {"tuple" if isinstance(value, tuple) else "list": [encode(one, budget) for one in value]}
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"returned a dict with a {type(name).__name__} for a name, expected texts")
        return {"dict": [[encode(name), encode(one, budget)] for name, one in value.items()]}
    raise TypeError(
        f"returned a {type(value).__name__}, expected numbers, texts, arrays, tensors or tuples of them"
    )


def make_printable(text: str) -> str:
    """Return a text that can be written anywhere: no lone surrogates, control characters or heaps of marks.

    Args:
        text: any text; what exceeds ``MAX_TEXT`` characters is cut off.
    """
    short = text[:MAX_TEXT].encode("utf-8", "backslashreplace").decode()
    shown = (c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in short)
    return "".join(_drop_heaps(shown))


def _drop_heaps(characters: Iterable[str]) -> Iterator[str]:
    """Yield characters without the marks that would be drawn over the lines around them."""
    marks = 0
    for c in characters:
        marks = marks + 1 if unicodedata.category(c) in ("Mn", "Me") else 0
        if marks <= MAX_MARKS:
            yield c


def decode(data: Any, budget: Budget | None = None) -> Any:
    """Return the value that ``encode`` was given.

    Args:
        data: what JSON has read. It may come from an answer, so nothing about it is taken for granted.
        budget: what the whole value may still hold; default: all that is allowed.

    Raises:
        ValueError: if ``encode`` cannot have made the data.
    """
    budget = budget or Budget(ValueError)
    if type(data) is int and data.bit_length() > MAX_BITS:
        raise ValueError("data: not made by encode")
    if isinstance(data, str) and len(data) > LONGEST_TEXT:
        raise ValueError("data: not made by encode")
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError("data: not made by encode")
    ((kind, content),) = data.items()
    if kind in ("tuple", "list", "dict") and isinstance(content, list):
        budget.add_items(kind, len(content))
    if kind in ("tuple", "list") and isinstance(content, list):
        values = [decode(one, budget) for one in content]
        return tuple(values) if kind == "tuple" else values
    if kind == "dict" and isinstance(content, list) and all(_is_pair(one) for one in content):
        return {name: decode(one, budget) for name, one in content}
    if kind in ("array", "tensor"):
        array = _decode_array(content, budget)
        return torch.from_numpy(array) if kind == "tensor" else array
    raise ValueError("data: not made by encode")


def _is_pair(data: Any) -> bool:
    """Return whether the data is a name and a value. Numbers could be chosen so that their hashes collide."""
    return isinstance(data, list) and len(data) == 2 and isinstance(data[0], str)


def _encode_array(array: np.ndarray, budget: Budget) -> list[Any]:
    """Return dtype, shape and entries (base64) of an array."""
    budget.add_entries(array.size)
    if array.dtype.name not in DTYPES:
        wide = np.float64 if array.dtype.kind == "f" else np.int64
        if not np.can_cast(array.dtype, wide, "same_kind"):
            raise TypeError(f"returned an array of {array.dtype.name}, expected real numbers or truth values")
        array = array.astype(wide)
    return [
        array.dtype.name,
        list(array.shape),
        base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
    ]


def _decode_array(content: Any, budget: Budget) -> np.ndarray:
    """Return the array that ``_encode_array`` was given; a ValueError if it cannot have made the content."""
    try:
        name, shape, data = content
        known = name in DTYPES and isinstance(shape, list) and len(shape) <= MAX_AXES
        if not known or not all(type(n) is int and 0 <= n <= MAX_ENTRIES for n in shape):
            raise ValueError("data: not made by encode")
        budget.add_entries(math.prod(shape))
        flat = np.frombuffer(base64.b64decode(data, validate=True), dtype=name)
        return flat.reshape(shape).copy()
    except TypeError as error:
        raise ValueError("data: not made by encode") from error


# --- one call -----------------------------------------------------------------------------------------------


def call_answer(
    namespace: Mapping[str, Any],
    name: str,
    arguments: list[Any],
    call: Callable[[Any], None] | None = None,
) -> dict[str, Any]:
    """Call a function of an answer, or read a value of it, and return the outcome as plain data.

    Args:
        namespace: what the answer has defined, by name.
        name: the function that is called. A name that is no function is its own value, if there are no
            arguments.
        arguments: encoded arguments.
        call: makes a watched call instead; its keeper then has the value.

    Returns:
        ``{"value": encoded}``; of a watched call ``{}``; or ``{"error": kind, "text": message, "line": the
        answer's line that raised}``. It raises nothing, but an interrupt in a notebook.
    """
    if name not in namespace:
        return {"error": "Missing", "text": f"`{name}` is not defined", "line": ""}
    try:
        answer = namespace[name]
        if call is not None:
            call(answer)
            return {}
        if not callable(answer) and not arguments:
            return {"value": encode(answer)}
        given = [decode(one) for one in arguments]
        value = encode(answer(*given))
        refuse_changes(given, arguments)
        return {"value": value}
    except BaseException as error:  # also SystemExit: an answer must not end the process that reports
        let_through(error)
        return describe_exception(error)


def let_through(error: BaseException) -> None:
    """Raise an interrupt again in a notebook, where whoever asks for it wants the whole check to end."""
    if isinstance(error, KeyboardInterrupt) and __package__:
        raise error


def refuse_changes(given: Sequence[Any], arguments: Sequence[Any]) -> None:
    """Raise a TypeError if an answer has changed what it was given: a caller may need it again.

    Args:
        given: the arguments of a call after it.
        arguments: the same, encoded before it.
    """
    for number, (after, before) in enumerate(zip(map(encode, given), arguments, strict=True), 1):
        if after is not before and after != before:  # a NaN is itself, and equals nothing
            raise TypeError(f"returned with its argument {number} changed, expected inputs as they were")


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Return an exception as an outcome.

    Args:
        error: what was raised while an answer ran.

    Returns:
        ``{"error": the nearest built-in class, "text": its message, "line": the answer's own line that
        raised}``.
    """
    try:
        text = str(error)
    except Exception:
        text = ""
    # Frames are told apart before their lines are looked up: of a deep value, a thousand are ours.
    walk = traceback.walk_tb(error.__traceback__)
    places = [(frame.f_code.co_filename, number or 0) for frame, number in walk]
    frames = [one for one in places if os.path.basename(one[0]) not in OUR_FILES]
    own = [one for one in frames if one[0] == frames[0][0]]
    line = linecache.getline(*own[-1]) if own else ""
    if isinstance(error, SyntaxError):
        line = error.text or ""
    name = next(known for known in type(error).__mro__ if known.__module__ == "builtins").__name__
    return {"error": name, "text": make_printable(text), "line": make_printable((line or "").strip())}
