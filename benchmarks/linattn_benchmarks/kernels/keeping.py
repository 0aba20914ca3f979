"""Rows on disk: saved one by one, found again by the next run of the same code on the same device."""

import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import linattn_kernels
import linattn_ref
from linattn_benchmarks.kernels.cases import all_cases
from linattn_benchmarks.kernels.rows import COLUMNS, KEY, Row, facts
from linattn_book import results

NAME = "kernels"
SOURCES: tuple[str | Path, ...] = (
    *linattn_kernels.__path__,
    Path(__file__).parent,
    Path(linattn_ref.__file__).parent / "ops",
)


def key(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in KEY)


def place(row: Row) -> int:
    """In the order of all cases, whichever run it comes from."""
    order = [key(facts(case, row["device"])) for tiny in (False, True) for case in all_cases(tiny)]
    return order.index(key(row))


def kept(directory: Path, source_hash: str, device: str) -> list[Row]:
    """Rows of the same sources on the same device, without those where ours has no time."""
    if NAME not in results.names(directory=directory):
        return []
    origin = results.provenance(NAME, directory=directory)
    if (origin["source_hash"], origin["device"]) != (source_hash, device):
        print(
            f"{directory}: the rows there are of other code or of another device and will be replaced",
            flush=True,
        )
        return []
    return [row for row in results.load(NAME, directory=directory) if row["ms"] is not None]


def save(
    directory: Path, rows: Sequence[Row], source_hash: str, device: str, arguments: Sequence[str]
) -> None:
    in_order: list[Row] = sorted(rows, key=place)
    results.save(
        NAME,
        in_order,
        columns=COLUMNS | {"fla_op": f"{COLUMNS['fla_op']}{fla_version()}"},
        command=command(arguments),
        seed=0,
        source_hash=source_hash,
        device=device,
        directory=directory,
    )


def fla_version() -> str:
    """For the meaning of a column: FLA is not among the versions that ``results`` notes."""
    if find_spec("fla") is None:
        return ""
    import fla

    return f" {fla.__version__}"


def command(arguments: Sequence[str]) -> str:
    """What a reader types: ``--out`` names a folder of theirs."""
    shown = list(arguments)
    for i, argument in enumerate(shown):
        if argument == "--out" and i + 1 < len(shown):
            shown[i + 1] = "DIR"
        elif argument.startswith("--out="):
            shown[i] = "--out=DIR"
    return f"python -m linattn_benchmarks.kernels {shlex.join(shown)}"
