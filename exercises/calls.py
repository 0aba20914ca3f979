"""Call an answer once, and say what is wrong with the outcome.

A question is a list of such calls (``Question.draw``). The same ``Call`` is made in a reader's notebook, in
the sandbox of the grader, on the reference and on every known mistake."""

import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from linattn_exercises.comparison import Close, Comparison
from linattn_exercises.serialization import call_answer, decode, encode, make_printable
from linattn_exercises.watch import COUNTS, watch_call

CLOSE = Close()
# What stands before the names of modules in the paths of their files: it says how a machine was set up.
# A path begins only after a character that is in none, so that a text of slashes is read once.
LIBRARIES = re.compile(
    r"(?<![^\s'\"()=:,<])/[^\s'\"()=:,<]*/(?:(?:site|dist)-packages/|python3\.\d+/|(?=linattn_ref/))"
)

# What a call led to: {"value", "entries", "operations"}, or {"error", "text", "line"} if it raised or was
# stopped; see ``call_answer``, but the value is decoded. If a cell of the question failed before, an error in
# the grader may have "missing", the name that is called and not defined, or "cause", the failure of the cell,
# in case a name that the answer uses was to come from it.
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """Describe one call of an answer, and how its result is compared.

    Args:
        name: the function of the answer that is called, or the value that is read (without arguments).
        arguments: plain data, see ``serialization.encode``.
        inputs: the inputs in words, for the message.
        comparison: how the result is compared; default ``Close()``.
        bounds: the most that may be counted in this call, of the counts in ``watch.COUNTS``, by name; for
            questions that ask for own code.
        hint: said when the call fails and no known mistake fits.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    inputs: str = ""
    comparison: Comparison = CLOSE
    bounds: Mapping[str, int] = field(default_factory=dict)
    hint: str = ""

    def find_excess(self, outcome: Outcome) -> list[str]:
        """Return the names of the bounds that a counted outcome exceeds."""
        return [name for name, bound in self.bounds.items() if outcome.get(name, 0) > bound]


def run_call(answer: Mapping[str, Any], call: Call, watched: bool = False) -> Outcome:
    """Call an answer in this process, through plain data as the sandbox does, so it gets copies.

    Args:
        answer: the functions and values of the answer, by name.
        call: what is called.
        watched: whether its operations are watched, see ``watch``.

    Returns:
        ``{"value"}``, if watched with ``"entries"`` and ``"operations"``; or ``{"error", "text", "line"}``
        if the call raised.
    """
    arguments = [encode(one) for one in call.arguments]
    run = watch_call if watched else call_answer
    return decode_outcome(run(answer, call.name, arguments))


def decode_outcome(outcome: Any) -> Outcome:
    """Return an outcome with its value decoded.

    Args:
        outcome: what ``call_answer`` has returned; it may come from a sandbox whose answer has forged it.

    Raises:
        ValueError: for what is no outcome.
    """
    if not isinstance(outcome, dict):
        raise ValueError(f"outcome: got a {type(outcome).__name__}, expected a dict")
    if "value" in outcome:
        counts = {name: outcome[name] for name in COUNTS if name in outcome}
        if not all(type(count) is int for count in counts.values()):
            raise ValueError(f"outcome: got counts {counts}, expected whole numbers")
        return {"value": decode(outcome["value"]), **counts}
    if not (outcome.get("error") == "Missing" or _is_exception(outcome.get("error"))):
        raise ValueError("outcome: expected a value, or an error by the name of a built-in exception")
    missing = outcome.get("missing", "x")
    if not (isinstance(missing, str) and missing[:1_000].isidentifier()):
        raise ValueError("outcome: expected the name of what is missing")
    told: Outcome = _make_printable(outcome, "missing")
    if isinstance(cause := outcome.get("cause"), dict) and _is_exception(cause.get("error")):
        told["cause"] = _tell(_make_printable(cause))
    return told


def _make_printable(outcome: dict[str, Any], *more: str) -> dict[str, str]:
    """Return what an outcome says of an exception: short, printable, on one line, so that it looks like no
    verdict."""
    texts = {}
    for name in ("error", "text", "line", *more):
        if name in outcome:
            if not isinstance(outcome[name], str):  # to write out what was forged may take long
                raise ValueError(f"outcome: expected words for {name}, got a {type(outcome[name]).__name__}")
            texts[name] = outcome[name][:1_000]
    return {name: make_printable(" ".join(LIBRARIES.sub("", x).split())[:400]) for name, x in texts.items()}


def _tell(told: dict[str, str]) -> str:
    """Return which exception was raised, where, and what it says."""
    error, text, line = (told.get(name, "") for name in ("error", "text", "line"))
    where = f" in the line `{line}`" if line else ""
    if error == "MemoryError" or "allocate memory" in text:
        return f"needs more memory than it may use{where}"
    return f"raised {error}{where}: {text}".rstrip(": ")


def _is_exception(name: Any) -> bool:
    """Return whether this is the name of a built-in exception."""
    kind = getattr(builtins, name, None) if isinstance(name, str) else None
    return isinstance(kind, type) and issubclass(kind, BaseException)


def find_fault(call: Call, outcome: Outcome, wanted: Any) -> str:
    """Return what is wrong with an outcome in a sentence, or "" if nothing is.

    Args:
        call: the call that the outcome belongs to.
        outcome: what the call led to.
        wanted: the result that is expected.
    """
    inputs = f"{call.inputs}: " if call.inputs else ""
    if "value" not in outcome:
        return _describe_error(call, outcome, inputs)
    value = outcome["value"]
    if value is None:
        return f"`{call.name}` is not answered yet: it gave None."
    if found := call.comparison.find_difference(value, wanted):
        return f"{inputs}`{call.name}` {found}"
    counted = {
        "entries": "made a tensor of {:,} entries",
        "integers": "made a tensor of {:,} whole numbers",
        "truths": "made a tensor of {:,} truth values",
        "operations": "took {:,} torch operations",
        "work": "took a work of {:,}",
        "held": "held tensors of {:,} entries at a time",
        "positions": "held {:,} whole numbers at a time",
        "loads": "read {:,} entries",
        "stores": "wrote {:,} entries",
        "busiest": "read {:,} entries in one program",
        "accesses": "loaded or stored {:,} tiles",
        "widest": "loaded or stored {:,} entries in one tile",
    }
    for name in call.find_excess(outcome):
        much, bound = counted[name].format(outcome[name]), call.bounds[name]
        return f"{inputs}right, but `{call.name}` {much}, expected at most {bound:,}."
    return ""


def _describe_error(call: Call, outcome: Outcome, inputs: str) -> str:
    """Return a sentence about a call that raised, or was stopped."""
    error, text = (outcome.get(name, "") for name in ("error", "text"))
    if error == "NotImplementedError" and not text:
        return f"`{call.name}` is not answered yet."
    if error == "Missing":
        return f"`{call.name}` is not defined; its cell is missing, or did not run."
    if error == "Stopped":
        return text
    raised = _tell(outcome)
    if outcome.get("missing"):
        return f"`{outcome['missing']}` is not defined: its cell {raised}."
    if error == "TypeError" and text.startswith("returned"):
        return f"{inputs}`{call.name}` {text}."
    before = f" Before that, its cell {outcome['cause']}." if outcome.get("cause") else ""
    return f"{inputs}`{call.name}` {raised}.{before}"


def outcomes_agree(call: Call, outcome: Outcome, other: Outcome) -> bool:
    """Return whether two outcomes of a call are the same, as far as its comparison and bounds can tell.

    Args:
        call: the call that both belong to.
        outcome: what an answer gave.
        other: what a known mistake gives.
    """
    if "value" in outcome and "value" in other:
        excess = call.find_excess(outcome)
        same_excess = excess == call.find_excess(other)
        if "entries" in excess:  # a table that is too large is one that is known if it has the same size
            same_excess &= outcome["entries"] == other["entries"]
        return same_excess and call.comparison.find_difference(outcome["value"], other["value"]) is None
    if "error" not in outcome or outcome["error"] != other.get("error"):
        return False
    texts = outcome.get("text", ""), other.get("text", "")
    return texts[0] == texts[1] or all("allocate memory" in text for text in texts)
