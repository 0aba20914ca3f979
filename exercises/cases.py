"""A case: one call of an answer, and what is said about its outcome."""

from dataclasses import dataclass
from typing import Any

from linattn_exercises.judging import Close, Comparison, Outcome
from linattn_exercises.plain import call, decode, encode

CLOSE = Close()


@dataclass(frozen=True)
class Case:
    """One call of an answer.

    Args:
        name: the function of the answer that is called, or the value that is read (without arguments).
        arguments: plain data, see ``plain.encode``.
        says: the inputs in words, for the message.
        accept: how the result is compared.
        against: what gives the expected result, if not ``name`` itself: another function of the reference,
            and the arguments it is called with.
        unlike: said if the result *is* the expected one, for a call that must not give it.
        entries: of the largest tensor that torch may make in this call; 0 is any size.
        operations: that torch may do in this call; 0 is any number.
        hint: said when the case fails and no planted mistake fits.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    says: str = ""
    accept: Comparison = CLOSE
    against: tuple[str, tuple[Any, ...]] | None = None
    unlike: str = ""
    entries: int = 0
    operations: int = 0
    hint: str = ""

    def bounds(self) -> list[tuple[str, int]]:
        """What torch may do in this call; 0 is no bound."""
        return [("entries", self.entries), ("operations", self.operations)]


def answered(answer: dict[str, Any], case: Case) -> Outcome:
    """Call an answer in this process, through plain data as the grader does; its arguments are copies."""
    return decoded(
        call(
            answer,
            case.name,
            [encode(one) for one in case.arguments],
            any(bound for _, bound in case.bounds()),
        )
    )


def decoded(outcome: Any) -> Outcome:
    """An outcome with its value decoded; what is no outcome is a ValueError."""
    if not isinstance(outcome, dict):
        raise ValueError("outcome: not a dict")
    if "value" in outcome:
        counts = {name: outcome.get(name, 0) for name in ("entries", "operations")}
        if not all(type(count) is int for count in counts.values()):
            raise ValueError("outcome: counts are no whole numbers")
        return {"value": decode(outcome["value"]), **counts}
    return {
        name: str(outcome[name])[:400] for name in ("error", "text", "line", "missing") if name in outcome
    }


def fault_of(case: Case, outcome: Outcome, want: Any) -> tuple[str, str] | None:
    """What is wrong with an outcome, and a hint; None if nothing is."""
    inputs = f"{case.says}: " if case.says else ""
    if "value" not in outcome:
        return _failed(case, outcome, inputs), ""
    if outcome["value"] is None:
        return f"`{case.name}` is not answered yet: it gave None.", ""
    found = case.accept.difference(outcome["value"], want)
    if case.unlike:
        return None if found else (f"{inputs}`{case.name}` {case.unlike}", "")
    if found:
        return f"{inputs}`{case.name}` {found}", found.hint
    did = {"entries": "made a tensor of {:,} entries", "operations": "took {:,} torch operations"}
    for name, bound in case.bounds():
        if outcome[name] > bound > 0:
            much = did[name].format(outcome[name])
            return f"{inputs}right, but `{case.name}` {much}, expected at most {bound:,}.", ""
    return None


def _failed(case: Case, outcome: Outcome, inputs: str) -> str:
    error, text, line = (outcome.get(name, "") for name in ("error", "text", "line"))
    if error == "NotImplementedError" and not text:
        return f"`{case.name}` is not answered yet."
    if error == "Missing":
        return f"`{case.name}` is not defined; its cell is missing, or did not run."
    if error == "Stopped":
        return text
    if error == "MemoryError" or "allocate memory" in text:
        return f"{inputs}`{case.name}` needs more memory than it may use."
    raised = f"raised {error}{f' in the line `{line}`' if line else ''}: {text}".rstrip(": ")
    if outcome.get("missing"):
        return f"`{outcome['missing']}` is not defined: its cell {raised}."
    if error == "TypeError" and text.startswith("returned"):
        return f"{inputs}`{case.name}` {text}."
    return f"{inputs}`{case.name}` {raised}."


def look_alike(case: Case, outcome: Outcome, wrong: Outcome) -> bool:
    """Whether an outcome is what a planted mistake gives, as far as the case can tell."""
    if case.unlike:
        return True  # every other result will do, so this one tells nothing
    if "value" in outcome and "value" in wrong:
        excess = [[one[name] > bound > 0 for name, bound in case.bounds()] for one in (outcome, wrong)]
        return excess[0] == excess[1] and case.accept.difference(outcome["value"], wrong["value"]) is None
    return "error" in outcome and outcome.get("error") == wrong.get("error")
