"""Run the command ``python -m linattn_benchmarks NAME... --out DIR``."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from linattn_benchmarks.benchmark import Benchmark, Size
from linattn_benchmarks.registry import BENCHMARKS, load_benchmark
from linattn_benchmarks.run import Selection, compile_benchmark, count_processes, run_benchmark, select


def make_parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    parsing = argparse.ArgumentParser(
        prog="python -m linattn_benchmarks",
        description="Measure the tables that the book quotes. A run that is stopped goes on where it was.",
    )
    add = parsing.add_argument
    add("names", nargs="+", choices=sorted(BENCHMARKS), metavar="NAME", help=", ".join(sorted(BENCHMARKS)))
    add("--out", type=Path, metavar="DIR", help="folder for NAME.csv and index.json")
    size = parsing.add_mutually_exclusive_group()
    size.add_argument("--reduced", action="store_true", help="smaller sizes, minutes at most")
    size.add_argument("--dry-run", action="store_true", help="tiny inputs on a CPU, to test the code")
    add(
        "--only",
        nargs="+",
        default=[],
        metavar="COLUMN=CELL",
        help="rows with these cells, such as op='chunk_*' mode=fwd; a column may have several",
    )
    add("--minutes", type=float, metavar="M", help="stop before they are over and say what is left")
    add("--jobs", type=int, metavar="N", help="processes at the same time; default: one for each GPU")
    add("--fresh", action="store_true", help="measure rows anew that --out already has")
    add("--join", nargs="+", default=[], type=Path, metavar="DIR", help="take the rows of other runs, too")
    add("--warm", action="store_true", help="kernels: only compile, several at a time; no times are taken")
    return parsing


def parse_selection(words: Sequence[str]) -> Selection:
    """Return ``COLUMN=CELL`` words as the wanted cells of each column."""
    only: dict[str, list[str]] = {}
    for word in words:
        column, equals, cell = word.partition("=")
        if not equals:
            raise ValueError(f"--only: got {word!r}, expected COLUMN=CELL")
        only.setdefault(column, []).append(cell)
    return only


def check_arguments(benchmark: Benchmark, size: Size, only: Selection, args: argparse.Namespace) -> None:
    """Refuse what cannot be run before anything is."""
    if benchmark.needs_gpu and size is not Size.DRY_RUN and not torch.cuda.is_available():
        raise ValueError(f"{benchmark.name} needs a CUDA device; --dry-run tests its code on a CPU")
    if args.out is None and not args.warm:
        raise ValueError("--out: got nothing, expected a folder")
    tasks = select(benchmark.tasks(size), only)
    if not args.warm:
        count_processes(benchmark, tasks, args.jobs)
    elif tasks[0].compile is None:
        raise ValueError(f"--warm: got {benchmark.name}, expected a benchmark that compiles kernels")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0, 1 if a task failed, and exit with 2 for a wrong argument.

    Args:
        arguments: the words behind the command. Default None, those that this process was called with.
    """
    parsing = make_parser()
    args = parsing.parse_args(arguments)
    size = Size.DRY_RUN if args.dry_run else Size.REDUCED if args.reduced else Size.FULL
    if args.dry_run:
        os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, which is after this
    benchmarks = [load_benchmark(name) for name in args.names]
    try:
        only = parse_selection(args.only)
        for benchmark in benchmarks:
            check_arguments(benchmark, size, only, args)
    except ValueError as error:
        parsing.error(str(error))
    deadline = None if args.minutes is None else time.monotonic() + 60 * args.minutes
    failed = False
    for benchmark in benchmarks:
        if args.warm:
            outcome = compile_benchmark(benchmark, size, only, args.jobs)
        else:
            outcome = run_benchmark(
                benchmark,
                args.out,
                size=size,
                only=only,
                minutes=None if deadline is None else (deadline - time.monotonic()) / 60,
                jobs=args.jobs,
                fresh=args.fresh,
                join=args.join,
            )
        failed = failed or bool(outcome.failed)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
