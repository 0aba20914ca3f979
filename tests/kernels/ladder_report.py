"""Make a table of what the tests of ``test_gpu_ladder.py`` measured: a plugin of pytest.

``pytest -p tests.kernels.ladder_report --ladder-out DIR ...`` saves it as the result ``kernels_ladder`` in
DIR and prints it: the worst of every op, check, kind of decay and dtype. A test that raised, or crashed its
process, is a failure of its row and hides no other.

Nothing of ours is imported at the top: pytest reads plugins before ``tests/conftest.py`` sets the
environment.
"""

import functools
import math
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch

if TYPE_CHECKING:
    from tests.ops.ladder_cases import Case

NAME = "kernels_ladder"
COLUMNS = {
    "op": "name of the op",
    "form": "chunk, or step: one token at a time",
    "check": "what was checked, a test of tests/kernels/test_gpu_ladder.py",
    "decay": "none, head [H], token [B, T, H] or channel [B, T, H, K]",
    "dtype": "of q, k and v",
    "cases": "number of cases",
    "worst_error": "largest error, max|a - b| / max(1, max|b|); empty: none was finite",
    "bound_used": "largest error / bound, see tests/kernels/kernel_bounds.py; empty: same bits are asked for",
    "failed": "number of cases that raised, or had an error above its bound",
    "result": "the result or gradient with the largest error / bound",
    "example": "its case, or the first that failed",
    "message": "of the first case that raised; empty: none did",
}
GROUP = ("op", "form", "check", "decay", "dtype")
STEP_CHECKS = ("steps", "step_gradients", "in_place", "large_step")
TableRow = dict[str, Any]


class Measurement(NamedTuple):
    """Hold how far a result or gradient is from what it should be, and how far it may be.

    Attributes:
        name: of the result, or "gradient of" and the name of an input.
        error: max|a - b| / max(1, max|b|).
        bound: the largest error allowed; 0 asks for the same bits.
    """

    name: str
    error: float
    bound: float

    @property
    def bound_used(self) -> float:
        """Return error / bound; where the same bits are asked for, 0 or infinite."""
        return self.error / self.bound if self.bound else (math.inf if self.error else 0.0)


@dataclass
class Outcome:
    """Hold what one test measured, and why it failed for another reason than its measurements.

    Attributes:
        check: name of the test, without ``test_``.
        case: name of its case.
        measurements: what it measured.
        message: of the exception that it raised; empty if only a measurement was above its bound.
        failed: whether it failed, for either reason.
    """

    check: str
    case: str
    measurements: list[Measurement] = field(default_factory=list)
    message: str = ""
    failed: bool = False


# --- hooks of pytest ---------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that asks for the table."""
    parser.addoption(
        "--ladder-out", type=Path, metavar="DIR", help="folder for kernels_ladder.csv and index.json"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect reports in the process that leads the run."""
    if config.option.markexpr == "gpu" and not torch.cuda.is_available():
        raise pytest.UsageError("no CUDA device is here; without -m gpu a few cases run on the CPU")
    if config.option.ladder_out is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(LadderReport(config.option.ladder_out, command_of(config)))


def command_of(config: pytest.Config) -> str:
    """Return what a reader types to get the table again."""
    if config.option.markexpr == "gpu" and not config.option.keyword:
        return "make test-gpu OUT=DIR"
    directory = str(config.option.ladder_out)
    words = [word.replace(directory, "DIR") for word in map(str, config.invocation_params.args)]
    return shlex.join(["python", "-m", "pytest", *words])


class LadderReport:
    """Collect the outcome of every test, and save and print the table when all have ended."""

    def __init__(self, directory: Path, command: str) -> None:
        self.directory, self.command = directory, command
        self.outcomes: dict[str, Outcome] = {}
        self.text = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a test, or the crash of the process that ran it."""
        name = re.search(r"::test_(\w+)\[([^\]]+)\]", report.nodeid)
        if name is None or report.skipped or not (report.when == "call" or report.failed):
            return
        outcome = self.outcomes.setdefault(name[0], Outcome(*name.groups()))
        measured = dict(report.user_properties).get("measurements", ())
        outcome.measurements = [Measurement(*m) for m in measured] or outcome.measurements  # type: ignore[misc]
        outcome.failed |= report.failed
        if report.failed and not any(m.bound_used > 1 for m in outcome.measurements):
            crash = getattr(report.longrepr, "reprcrash", None)
            outcome.message = outcome.message or (crash.message if crash else str(report.longrepr))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Save the table, unless the run was cut off."""
        if self.outcomes and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            rows = rows_of(self.outcomes.values())
            save(rows, self.directory, device_name(), self.command)
            self.text = table(rows)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print how bounds are made, and the table."""
        from tests.kernels import kernel_bounds

        if self.text:
            terminalreporter.write_line(f"{kernel_bounds.__doc__}\n{self.text}")


# --- the table ---------------------------------------------------------------------------------------------


def rows_of(outcomes: Iterable[Outcome]) -> list[TableRow]:
    """Return a row for the worst of every op, form, check, kind of decay and dtype."""
    groups: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(group_of(outcome), []).append(outcome)
    return [_row(key, group) for key, group in sorted(groups.items())]


def group_of(outcome: Outcome) -> tuple[str, ...]:
    """Return op, form, check, kind of decay and dtype of an outcome."""
    case = cases_by_name()[outcome.case]
    form = "step" if outcome.check in STEP_CHECKS else "chunk"
    dtype = str(case.dtype).removeprefix("torch.")
    return case.op, form, outcome.check, case.decay or "none", dtype


@functools.cache
def cases_by_name() -> "dict[str, Case]":
    """Return all cases of the ladder by the names that tests have."""
    from tests.kernels.kernel_cases import IN_INTERPRETER, ON_GPU

    return {str(case): case for cases in (*ON_GPU, *IN_INTERPRETER) for case in cases}


def _row(key: tuple[str, ...], group: list[Outcome]) -> TableRow:
    """Return the row of a group."""
    failed = [outcome for outcome in group if outcome.failed]
    measured = [(outcome, m) for outcome in group for m in outcome.measurements]
    errors = [m.error for _, m in measured if math.isfinite(m.error)]
    shares = [m.bound_used for _, m in measured if m.bound > 0 and math.isfinite(m.error)]
    worst, m = max(measured, key=lambda pair: pair[1].bound_used, default=(group[0], None))
    messages = [outcome.message for outcome in failed if outcome.message]
    return dict(zip(GROUP, key, strict=True)) | {
        "cases": len(group),
        "worst_error": max(errors, default=None),
        "bound_used": max(shares, default=None),
        "failed": len(failed),
        "result": m.name if m else None,
        "example": (failed[0] if failed else worst).case,
        "message": one_line(messages[0]) if messages else None,
    }


def one_line(text: str) -> str:
    """Return the beginning of a message as one printable line."""
    words = " ".join(text.split())[:300]
    return "".join(letter if letter.isprintable() else " " for letter in words)


def device_name() -> str:
    """Return the name of the GPU, or that there was none."""
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "CPU, Triton's interpreter"


def save(rows: list[TableRow], directory: Path, device: str, command: str) -> None:
    """Write the result ``kernels_ladder`` into a folder."""
    from linattn_book import results
    from linattn_book.provenance import code_hash

    results.save(
        NAME,
        rows,
        columns=COLUMNS,
        command=command,
        seed=0,
        source_hash=code_hash("linattn_kernels", mixers=()),
        device=device,
        directory=directory,
    )


def table(rows: list[TableRow]) -> str:
    """Return the table as text: a line for each row, and what failed below."""
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in GROUP}
    head = " ".join(f"{name:{width}}" for name, width in widths.items())
    lines = [f"{head} {'cases':>5} {'error':>9} {'of bound':>8} {'failed':>6}  result"]
    for row in rows:
        names = " ".join(f"{row[name]:{width}}" for name, width in widths.items())
        error, share = number(row["worst_error"], ".2e"), number(row["bound_used"], ".2f")
        lines.append(
            f"{names} {row['cases']:5} {error:>9} {share:>8} {row['failed']:6}  {row['result'] or ''}"
        )
    lines += [
        f"FAILED {row['check']} {row['example']}: {row['message'] or 'error above bound'}"
        for row in rows
        if row["failed"]
    ]
    total, failed = (sum(row[name] for row in rows) for name in ("cases", "failed"))
    return "\n".join([*lines, f"{total} checks, {failed} failed"])


def number(x: float | None, form: str) -> str:
    """Return a number as text; None is empty."""
    return "" if x is None else format(x, form)
