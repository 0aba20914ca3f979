"""Run the notebooks and store their outputs: ``python -m linattn_book.builders.execute [NOTEBOOK...]``.

Outputs are written only after the whole notebook has run, so an error leaves the committed file as it was.
The running times go to ``book/run_times.json``, by chapter and by kind of device, with the hardware they were
measured on. ``--record-only`` measures and records, and leaves the notebooks alone: that is how a GPU machine
adds its row.
"""

import argparse
import datetime
import json
import os
import platform
import re
import sys
import time
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from linattn_ref.training.files import write_atomically

from .notebooks import KERNEL_ENV, dump_notebook, find_chapters, find_root, read_notebook

CELL_TIMEOUT = 120  # seconds
MAX_BYTES = 1_500_000
THREADS = "2"  # the book promises its times for two cores
ANSI = re.compile(r"\x1b\[[\d;]*m")  # the colours of a traceback

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "pygments_lexer": "ipython3",
}


class ChapterError(Exception):
    """Report a notebook that did not run, ran for too long or came out too large."""


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Drop from a notebook, in place, what depends on the machine and not on the cells."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata.update(kernelspec=KERNELSPEC, language_info=LANGUAGE)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    return notebook


def execute(path: Path, limit: float = 60.0, store: bool = True) -> float:
    """Run one notebook in its own folder, store the outputs (unless told not to), return the wall seconds.

    Raises ChapterError, and writes nothing, when a cell fails, when the run takes longer than `limit`
    seconds, or when the file would exceed 1.5 MB.
    """
    notebook = read_notebook(path)
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    start = time.perf_counter()
    try:
        client.execute(env={**os.environ, "OMP_NUM_THREADS": THREADS, **KERNEL_ENV})
    except CellTimeoutError as error:
        raise ChapterError(f"{path.name}: a cell ran for more than {CELL_TIMEOUT} s") from error
    except (CellExecutionError, DeadKernelError) as error:
        raise ChapterError(f"{path.name}: {ANSI.sub('', str(error))}") from error
    seconds = time.perf_counter() - start
    if seconds > limit:
        raise ChapterError(f"{path.name}: ran for {seconds:.0f} s, expected at most {limit:.0f} s (--limit)")
    text = dump_notebook(normalise(notebook))
    size = len(text.encode())
    if size > MAX_BYTES:
        raise ChapterError(f"{path.name}: {size:,} bytes with outputs, expected at most {MAX_BYTES:,}")
    if store:
        write_atomically({path: text})
    return seconds


def read_hardware() -> dict[str, str | int]:
    """Return what a running time depends on: processor, cores, device, versions, date."""
    import torch

    cpu = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        model = re.search(r"^model name\s*: (.+)$", cpuinfo.read_text(), flags=re.MULTILINE)
        cpu = model[1] if model else cpu
    cuda = torch.cuda.is_available()
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "device_class": "cuda" if cuda else "cpu",
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
    }


def record_times(times: Path, seconds: dict[str, float], machine: dict[str, str | int]) -> None:
    """Add one row a notebook (by stem) to the file of running times, under the machine's device class."""
    rows = json.loads(times.read_text()) if times.is_file() else {}
    row = {key: value for key, value in machine.items() if key != "device_class"}
    for stem, value in seconds.items():
        rows.setdefault(stem, {})[machine["device_class"]] = {"seconds": round(value, 1), **row}
    write_atomically({times: json.dumps(rows, indent=1, sort_keys=True, ensure_ascii=False) + "\n"})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m linattn_book.builders.execute", description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of chapters/")
    parser.add_argument("--record-only", action="store_true", help="measure; leave the notebooks alone")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a notebook may take (default 60)")
    arguments = parser.parse_args()
    root = find_root()
    seconds: dict[str, float] = {}
    failures: list[str] = []
    for path in arguments.notebooks or find_chapters(root):
        try:
            seconds[path.stem] = execute(path.resolve(), arguments.limit, store=not arguments.record_only)
            print(f"{path.name}: {seconds[path.stem]:.1f} s", flush=True)
        except (ChapterError, FileNotFoundError, ValueError) as error:
            failures.append(str(error))
            print(error, file=sys.stderr, flush=True)
    if seconds:
        record_times(root / "book" / "run_times.json", seconds, read_hardware())
    if failures:
        sys.exit(f"{len(failures)} notebook(s) failed and were left as they were")
    if not seconds:
        sys.exit("chapters/ holds no notebook")


if __name__ == "__main__":
    main()
