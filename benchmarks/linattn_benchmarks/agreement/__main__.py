"""The command: compare, and save after each case; one that fails is named, and the rest goes on."""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import linattn_ref
from linattn_benchmarks.agreement.layers import LAYER_STUDY
from linattn_benchmarks.agreement.ops import OPS
from linattn_benchmarks.agreement.rows import Rows, Study
from linattn_book import results

ROOT = Path(linattn_ref.__file__).parents[1]
COMMAND = ["-m", "linattn_benchmarks.agreement"]


def one_by_one(study: Study, names: Sequence[str]) -> Iterator[tuple[str, Rows]]:
    """A line of report and the rows of every case."""
    for name in names:
        for case in study.cases(name):
            try:
                rows = case.compare()
                errors = [row["error"] for row in rows if row["error"] is not None]
                said = [f"{max(errors):.2e}"] if errors else []
                said += [row["remark"] for row in rows if row.get("remark")]
            except Exception as error:  # a kernel that does not compile must not hide the others
                rows, said = [], [f"{type(error).__name__}: {str(error)[:300]}"]
            yield f"{case.label}: {'; '.join(said)}", rows


def side_by_side(study: Study, names: Sequence[str], jobs: int, out: Path) -> Iterator[tuple[str, Rows]]:
    """The same, each name in a process of its own: most of the time is compiling, and a crash takes one.

    What a process saves stays in a folder of ``out`` that is called as the name.
    """

    def run(name: str) -> tuple[str, Rows]:
        shutil.rmtree(out / name, ignore_errors=True)
        command = [*COMMAND, *study.option.split(), name, "--out", str(out / name)]
        process = subprocess.run([sys.executable, *command], capture_output=True, text=True)
        crash = f"{name}: {process.stderr[-300:]}" if process.returncode else ""
        there = (out / name / "index.json").exists()
        return process.stdout + crash, results.load(study.result, directory=out / name) if there else []

    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(run, name) for name in names]):
            report, rows = done.result()
            yield report.rstrip(), rows


def save(study: Study, rows: Rows, out: Path) -> None:
    results.save(
        study.result,
        rows,
        columns=study.columns,
        command=f"python -m linattn_benchmarks.agreement {study.option}--out DIR",
        seed=0,
        source_hash=results.source_hash([ROOT / name for name in study.sources]),
        directory=out,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m linattn_benchmarks.agreement")
    parser.add_argument("names", nargs="*", metavar="NAME", help="functions of FLA, or mixers; else all")
    parser.add_argument("--layers", action="store_true", help="mixers with layers, not ops with kernels")
    parser.add_argument("--jobs", type=int, default=1, help="names that are compared at the same time")
    parser.add_argument("--out", type=Path, required=True, help="folder for the CSV file and index.json")
    arguments = parser.parse_args()
    study = LAYER_STUDY if arguments.layers else OPS
    names = arguments.names or study.names
    if unknown := set(names) - set(study.names):
        parser.error(f"names: got {', '.join(sorted(unknown))}, expected some of {', '.join(study.names)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    jobs, first = arguments.jobs, next(iter(study.columns))
    found = one_by_one(study, names) if jobs == 1 else side_by_side(study, names, jobs, arguments.out)
    rows: Rows = []
    for report, more in found:
        print(report, flush=True)
        rows = sorted(rows + more, key=lambda row: study.names.index(row[first]))
        if rows:
            save(study, rows, arguments.out)


if __name__ == "__main__":
    main()
