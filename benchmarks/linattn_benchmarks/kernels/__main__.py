"""The command: time what was asked for, save after each row, print a table."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from linattn_benchmarks.kernels import keeping, tuning
from linattn_benchmarks.kernels.cases import CHUNK_SHAPES, MODES, OPS, STEP_SHAPES, Case, all_cases
from linattn_benchmarks.kernels.report import report
from linattn_benchmarks.kernels.rows import Row, candidates_of, facts, measure
from linattn_benchmarks.kernels.timing import Ceilings, Clock, CPUClock, CudaClock, ceilings
from linattn_book import results

SHAPES = tuple("x".join(map(str, shape)) for shape in (*CHUNK_SHAPES, *STEP_SHAPES))


def parser() -> argparse.ArgumentParser:
    parsing = argparse.ArgumentParser(prog="python -m linattn_benchmarks.kernels")
    add = parsing.add_argument
    add("--out", type=Path, metavar="DIR", help="folder for kernels.csv and index.json")
    add("--ops", nargs="+", default=OPS, metavar="OP", help=f"without /...: all of them; {', '.join(OPS)}")
    add("--modes", nargs="+", default=MODES, choices=MODES)
    add("--shapes", nargs="+", default=[], metavar="BxTxHxD", help=", ".join(SHAPES))
    add("--minutes", type=float, metavar="M", help="stop before they are over and say what is left")
    add("--fresh", action="store_true", help="measure rows anew that --out already has")
    add(
        "--keep-tuning", action="store_true", help="keep FLA's tuning on disk for the next run: see tuning.py"
    )
    add("--join", nargs="+", default=[], type=Path, metavar="DIR", help="take the rows of other runs, too")
    add("--warm", action="store_true", help="only compile, several ops at a time; no times are taken")
    add("--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes of --warm")
    add("--dry-run", action="store_true", help="tiny inputs on a CPU, in Triton's interpreter, without FLA")
    return parsing


def chosen(args: argparse.Namespace, refuse: Callable[[str], object]) -> list[Case]:
    """The cases of the selection; a name that is none is refused, and so is a selection without any row."""
    cases = all_cases(tiny=args.dry_run)
    functions = dict.fromkeys(case.function for case in cases)
    shapes = dict.fromkeys(case.shape for case in cases)
    for option, wanted, known in (("--ops", args.ops, {*OPS, *functions}), ("--shapes", args.shapes, shapes)):
        for name in wanted:
            if name not in known:
                refuse(f"{option}: got {name!r}, expected one of {', '.join(sorted(known))}")
    found = [case for case in cases if case.mode in args.modes and {case.op, case.function} & set(args.ops)]
    found = [case for case in found if not args.shapes or case.shape in args.shapes]
    if not found:
        refuse("--ops, --modes, --shapes: got a selection without any row, expected one with a row")
    return found


def timed(
    cases: Sequence[Case],
    clock: Clock,
    device: str,
    deadline: float,
    save: Callable[[Row], None],
    args: argparse.Namespace,
) -> list[Case]:
    """Measure one case after the other; what the deadline leaves undone is returned."""
    if not cases:
        return []
    best: Ceilings = ceilings(clock, cases[0].dtype)
    print(
        f"{device}: copies {best.copy_gbps:.0f} GB/s, products {best.matmul_tflops:.0f} TFLOP/s", flush=True
    )
    took: list[float] = []
    for i, case in enumerate(cases):
        start = time.monotonic()
        if start + max(took[-3:], default=0.0) > deadline:
            return list(cases[i:])
        if not args.keep_tuning:
            tuning.forget_choices()
        print(case.label, flush=True)
        save(measure(case, candidates_of(case, fla=not args.dry_run), clock, best, device))
        took.append(time.monotonic() - start)
    return []


def time_all(
    cases: Sequence[Case], clock: Clock, device: str, args: argparse.Namespace, arguments: Sequence[str]
) -> None:
    started = time.monotonic()
    deadline = float("inf") if args.minutes is None else started + 60 * args.minutes
    source_hash = results.source_hash(keeping.SOURCES)
    args.out.mkdir(parents=True, exist_ok=True)
    wanted = {keeping.key(facts(case, device)): case for case in cases}
    rows = keeping.kept(args.out, source_hash, device)
    for directory in args.join:  # of runs on other GPUs of the same kind
        have = {keeping.key(row) for row in rows}
        rows += [row for row in keeping.kept(directory, source_hash, device) if keeping.key(row) not in have]
    if args.join:
        keeping.save(args.out, rows, source_hash, device, ["--out", "DIR"])
    if args.fresh:
        rows = [row for row in rows if keeping.key(row) not in wanted]
    done = {keeping.key(row) for row in rows} & wanted.keys()
    if done:
        print(f"{len(done)} rows are there already; --fresh measures them anew", flush=True)

    def save(row: Row) -> None:
        rows.append(row)
        asked_for = all(keeping.key(row) in wanted for row in rows)  # not so if others were there already
        keeping.save(args.out, rows, source_hash, device, arguments if asked_for else ["--out", "DIR"])

    to_do = [case for key, case in wanted.items() if key not in done]
    left = timed(to_do, clock, device, deadline, save, args)
    print(f"\n{report(rows)}" if rows else "no rows", flush=True)
    for case in left:
        print(f"not run, {args.minutes:g} minutes are over: {case.label}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """0, or 1 if a process of ``--warm`` failed; a wrong argument and a machine without GPU exit with 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parsing = parser()
    args = parsing.parse_args(arguments)
    if args.dry_run:
        os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
    elif not torch.cuda.is_available():
        parsing.error(
            "no CUDA device is here, and times of kernels need one; --dry-run tests the code on a CPU"
        )
    cases = chosen(args, parsing.error)
    tuning.keep_choices(args.keep_tuning and not args.warm)
    ops = list(dict.fromkeys(case.op for case in cases))
    if args.warm and len(ops) > 1:
        shapes = ["--shapes", *args.shapes] if args.shapes else []
        options = ["--modes", *args.modes, *shapes, *["--dry-run"] * args.dry_run]
        return 0 if tuning.warm_side_by_side(ops, options, args.jobs) else 1
    clock: Clock = CPUClock() if args.dry_run else CudaClock()
    if args.warm:
        tuning.warm_here(cases, clock, fla=not args.dry_run)
        return 0
    if args.out is None:
        parsing.error("--out: got nothing, expected a folder")
    device = "CPU, dry run" if args.dry_run else torch.cuda.get_device_name(clock.device)
    time_all(cases, clock, device, args, arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
