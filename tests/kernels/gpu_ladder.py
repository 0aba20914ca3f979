"""The ladder of the kernels on a GPU, without pytest: ``python tests/kernels/gpu_ladder.py --out DIR``.

Several processes share the GPU, since compiling is what takes the time; each leaves a record for every check
of every case in ``DIR/parts``, so a case that fails, or takes its process with it, hides no other. At the end
the worst of each kind is saved as the result ``kernels_ladder`` in DIR. Exit status 1 if any case failed.

All allocations are filled with NaN. Bounds are explained in ``kernel_bounds.py``.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

SILENCE = 420  # seconds without a new record after which a process is ended


def parser() -> argparse.ArgumentParser:
    parsing = argparse.ArgumentParser(prog="gpu_ladder.py")
    add = parsing.add_argument
    add("--out", type=Path, metavar="DIR", required=True, help="folder for kernels_ladder.csv and index.json")
    add("--jobs", type=int, metavar="N", help="processes that share the GPU; default: one a core, 14 at most")
    add("--only", metavar="TEXT", default="", help="checks and cases with this text in their name")
    add("--dry-run", action="store_true", help="a few tiny cases on the CPU, in Triton's interpreter")
    add("--worker", type=int, metavar="I", help=argparse.SUPPRESS)
    add("--heavy", action="store_true", help=argparse.SUPPRESS)
    return parsing


def main() -> int:
    parsing = parser()
    args = parsing.parse_args()
    if args.dry_run:
        os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, which is after this
    import torch

    if not args.dry_run and not torch.cuda.is_available():
        parsing.error("no CUDA device is here; --dry-run tries the runner on a CPU")
    args.jobs = args.jobs or (1 if args.dry_run else min(14, os.cpu_count() or 1))
    return worker(args) if args.worker is not None else lead(args)


def phase(args: argparse.Namespace, heavy: bool) -> list:
    from tests.kernels.gpu_tasks import tasks_of

    tasks = tasks_of("cpu" if args.dry_run else "cuda", heavy)
    return [task for task in tasks if any(args.only in key for key in task.keys())]  # noqa: SIM118


def part_of(args: argparse.Namespace, heavy: bool, number: int) -> Path:
    return args.out / "parts" / f"{'heavy' if heavy else 'light'}-{number}.jsonl"


def worker(args: argparse.Namespace) -> int:
    from tests.kernels.gpu_tasks import work

    tasks = phase(args, args.heavy)[args.worker :: 1 if args.heavy else args.jobs]
    return work(tasks, part_of(args, args.heavy, args.worker), "cpu" if args.dry_run else "cuda")


# --- the process that leads --------------------------------------------------------------------------------


def lead(args: argparse.Namespace) -> int:
    from tests.kernels import gpu_report, kernel_bounds
    from tests.kernels.gpu_tasks import records_of

    start = time.monotonic()
    shutil.rmtree(args.out / "parts", ignore_errors=True)
    (args.out / "parts").mkdir(parents=True)
    print(kernel_bounds.__doc__, flush=True)
    for heavy in (False, True):
        if phase(args, heavy):
            watch(args, heavy, 1 if heavy else args.jobs)
    tasks = phase(args, False) + phase(args, True)
    records = list(records_of((args.out / "parts").glob("*.jsonl"), tasks))
    if not records:
        raise SystemExit(f"--only: no check and no case has {args.only!r} in its name")
    rows = gpu_report.rows_of(records)
    gpu_report.save(rows, args.out, device_name(args.dry_run), command(args))
    print(gpu_report.table(rows))
    failed = sum(row["failed"] for row in rows)
    slowest = max(records, key=lambda record: record["seconds"])
    print(f"slowest: {slowest['seconds']:.0f} s, {slowest['check']} {slowest['case']}")
    print(f"{len(records)} checks, {failed} failed, {time.monotonic() - start:.0f} s", flush=True)
    return 1 if failed else 0


def watch(args: argparse.Namespace, heavy: bool, jobs: int) -> None:
    """Start all workers; start again one that has died, which goes on after the case that killed it."""
    running = {number: started(args, heavy, number) for number in range(jobs)}
    while running:
        time.sleep(0.2)
        for number, process in list(running.items()):
            part = part_of(args, heavy, number)
            if process.poll() is None and time.time() - part.stat().st_mtime > SILENCE:
                process.kill()
            if process.poll() is None:
                continue
            del running[number]
            if process.returncode != 0 and part.stat().st_size > getattr(process, "size", 0):
                running[number] = started(args, heavy, number)


def started(args: argparse.Namespace, heavy: bool, number: int) -> subprocess.Popen:
    """A worker; what it prints goes beside its records."""
    part = part_of(args, heavy, number)
    part.touch()
    options = [
        "--out",
        str(args.out),
        "--jobs",
        str(args.jobs),
        f"--only={args.only}",
        "--worker",
        str(number),
    ]
    options += ["--heavy"] * heavy + ["--dry-run"] * args.dry_run
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    with part.with_suffix(".log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.kernels.gpu_ladder", *options],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    process.size = part.stat().st_size  # type: ignore[attr-defined]  # no new record: it would die again
    return process


def device_name(dry_run: bool) -> str:
    import torch

    return "CPU, dry run" if dry_run else torch.cuda.get_device_name(0)


def command(args: argparse.Namespace) -> str:
    """What a reader types."""
    if not (args.dry_run or args.only):
        return "make test-gpu OUT=DIR"
    options = ["--dry-run"] * args.dry_run + (["--only", args.only] if args.only else [])
    return shlex.join(
        [
            "PYTHONPATH=.:kernels:book",
            "python",
            "-m",
            "tests.kernels.gpu_ladder",
            "--out",
            "DIR",
            *options,
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
