"""Run ``linattn grade``."""

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from linattn_exercises.grading import (
    ISOLATIONS,
    GradedSubmission,
    Grader,
    Limits,
    processes,
    tables,
)
from linattn_exercises.grading.grade import hold_folder
from linattn_exercises.grading.processes import count_cores, count_jobs
from linattn_exercises.grading.submissions import (
    SubmissionFile,
    find_notebooks,
    make_label,
    name_files,
)
from linattn_exercises.questions import PUBLIC_SEED
from linattn_exercises.serialization import make_printable

MAX_LINES = 20  # about what is left out
MAX_LABEL = 160  # characters of each
MAX_SEED = 10_000  # characters of a secret
SEED_VARIABLE = "LINATTN_SEED"  # never an option: others can read a command line
NOT_PROTECTED = (
    "Marks are not protected: answers ran without bubblewrap, as the user who graded, and may have read and "
    "changed what that user may."
)
SEEN = (
    "This system has no Landlock (Linux has it from 5.13 on): where own code is asked for, an answer sees "
    "how busy the process is that has the inputs, and may learn them by that."
)
DESCRIPTION = (
    "Grade notebooks, or all notebooks of a folder, and write DIR/marks.csv, marks.json, totals.csv and "
    "a page of feedback for each. A run that was stopped goes on where it was; a notebook that has changed "
    "is graded again."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe ``linattn grade``: its arguments, and what runs it."""
    parser.description = DESCRIPTION
    parser.add_argument(
        "submissions", nargs="+", type=Path, metavar="SUBMISSION", help="notebooks or folders"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="where marks and feedback go")
    parser.add_argument(
        "--seed-file",
        type=Path,
        metavar="FILE",
        help="a file whose first line is the secret for the hidden inputs; default: the environment variable "
        f"{SEED_VARIABLE}, or a secret that is drawn once and kept in DIR",
    )
    parser.add_argument(
        "--set", default="", dest="default_set", help="the set of notebooks that do not name theirs"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=0,
        help="notebooks at a time; default: one for each core, as far as there is memory",
    )
    parser.add_argument(
        "--cpu",
        type=int,
        default=5,
        metavar="SECONDS",
        help="processor time a question (5); three times as much on the clock",
    )
    parser.add_argument("--memory", type=int, default=1000, metavar="MB", help="memory a question (1000)")
    parser.add_argument(
        "--isolation",
        choices=ISOLATIONS,
        default="bubblewrap",
        help="process: without bubblewrap, limited in time and memory alone; marks are then not protected",
    )
    parser.add_argument(
        "--as-root", action="store_true", help="grade even as root, in a container of its own"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Grade, write the tables, and return the exit status: 1 if a notebook could not be graded."""
    processes.reset_signals()
    _open_closed_streams()
    for name, most in (("cpu", 3600), ("memory", 1_000_000)):
        if not 1 <= getattr(options, name) <= most:
            raise ValueError(f"{name}: got {getattr(options, name)}, expected 1 to {most:,}")
    if hasattr(os, "geteuid") and os.geteuid() == 0 and not options.as_root:
        raise ValueError(
            "user: got root, expected an ordinary user; in a container of its own, add --as-root"
        )
    found, left_out = find_notebooks(options.submissions, options.out)
    if not found:
        raise ValueError(
            f"submissions: got no notebook (*.ipynb) in {', '.join(map(str, options.submissions))}"
        )
    source, seed = _choose_seed(options)
    with hold_folder(options.out):
        return _grade_into_folder(options, found, left_out, source, seed)


def _grade_into_folder(
    options: argparse.Namespace,
    found: Sequence[tuple[str, Path]],
    left_out: Sequence[Path],
    source: str,
    seed: str,
) -> int:
    """Grade what was found into a folder that no other run writes into; return the exit status.

    Args:
        options: those of the command.
        found: see ``find_notebooks``.
        left_out: see ``find_notebooks``.
        source: where the seed comes from.
        seed: that of the command, or "".
    """
    grader = Grader(
        options.out,
        seed=seed,
        isolation=options.isolation,
        limits=Limits(cpu=options.cpu, wall=3 * options.cpu, memory=options.memory * 10**6),
        jobs=options.jobs,
        default_set=options.default_set,
        hidden=[
            *(path for path in options.submissions if path not in left_out),
            *filter(None, [options.seed_file]),
        ],
    )
    notice = NOT_PROTECTED if grader.isolation == "process" else ""
    seen = "" if notice or processes.can_hide_other_processes() else SEEN
    for warning in filter(None, (notice, seen, grader.warning, _describe_crowd(grader))):
        _say(f"linattn: {warning}", sys.stderr)
    for name in (changed := tables.find_changed(options.out, grader.sign)):
        done = "used all the same: look whether it is right" if name in tables.RECORDS else "written anew"
        _say(f"{name} is not as it was written with this seed; it is {done}", sys.stderr)
    files = name_files(found, tables.load_names(options.out))
    try:
        with _stop_at_signals(), processes.contain() if notice else contextlib.nullcontext():
            results, before = _grade(grader, files)
    finally:
        grader.note_run()
    for name in sorted(set(tables.find_changed(options.out, grader.sign)) - set(changed)):
        _say(f"{name} was changed while answers ran", sys.stderr)
    tables.write(options.out, results, grader.sign, notice, files)
    failed = [f"{one.name}: {one.fault}" for one in results if one.fault]
    told = f"{len(files) - before} graded, {before} as before: {options.out / 'marks.csv'}"
    _say(f"{told} (seed: {source})", sys.stdout)
    _list_left_out(left_out)
    for line in failed:
        _say(f"not graded: {line}", sys.stderr)
    return 1 if failed else 0


def _describe_crowd(grader: Grader) -> str:
    """Return what is wrong with more jobs than cores, or than memory allows; "" if they are not more."""
    if grader.jobs <= (most := count_jobs(grader.limits.memory)):
        return ""
    said = f"--jobs {grader.jobs} is more than the"
    if grader.jobs > (cores := count_cores()):
        return f"{said} cores that may be used, {cores}: answers will wait for each other"
    return f"{said} {most} that there is memory for: where it is short, the system ends answers"


def _list_left_out(paths: Sequence[Path]) -> None:
    """Print what is left out, first what may have been meant for a notebook."""
    for path in sorted(paths, key=lambda path: ".ipynb" not in path.name.lower())[:MAX_LINES]:
        _say(f"left out, no notebook: {_shorten(make_label(str(path)))}", sys.stdout)
    if len(paths) > MAX_LINES:
        _say(f"left out, no notebook: {len(paths) - MAX_LINES} more", sys.stdout)


def _grade(grader: Grader, files: Sequence[SubmissionFile]) -> tuple[list[GradedSubmission], int]:
    """Grade with a bar of progress; return the marks, and how many an earlier run had graded."""
    before = 0
    with tqdm(total=len(files), unit="notebook", file=sys.stderr, disable=sys.stderr is None) as bar:

        def on_graded(graded: GradedSubmission, was_kept: bool) -> None:
            nonlocal before
            before += was_kept
            bar.update()

        return grader.grade(files, on_graded), before


@contextlib.contextmanager
def _stop_at_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP stop the run as an interrupt does, so that nothing of it is left behind."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    in_main_thread = threading.current_thread() is threading.main_thread()  # no other may say what signals do
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [number for number in numbers if in_main_thread and signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _shorten(text: str) -> str:
    """Return a text in which dots stand for the middle, if it is longer than a line or two."""
    return text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 40]} ... {text[-35:]}"


def _open_closed_streams() -> None:
    """Open the null device where input, output or errors are closed, or a file of ours gets their number."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


def _say(text: str, stream: TextIO | None) -> None:
    """Print one line, whatever is in it and whatever the terminal can show; nothing if there is none."""
    if stream is None:
        return
    line = " ".join(make_printable(text).split())
    coding = stream.encoding or "utf-8"
    print(line.encode(coding, "backslashreplace").decode(coding), file=stream)


def _choose_seed(options: argparse.Namespace) -> tuple[str, str]:
    """Return where the seed comes from and the seed; the folder of marks and "" if none is given."""
    try:
        of_variable = os.fsencode(os.environ.get(SEED_VARIABLE, "")).decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{SEED_VARIABLE}: got bytes that are no text in UTF-8, expected the secret"
        ) from error
    given = {
        str(options.seed_file): _read_first_line(options.seed_file),
        f"the variable {SEED_VARIABLE}": of_variable,
    }
    source, seed = next((one for one in given.items() if one[1]), (str(options.out), ""))
    if seed == PUBLIC_SEED:
        raise ValueError(
            f"{'seed-file' if options.seed_file else SEED_VARIABLE}: got {seed!r}, the seed of the checks in "
            "notebooks, which everyone has; expected a secret"
        )
    return source, seed


def _read_first_line(path: Path | None) -> str:
    """Return the first line of a file, which must not be empty; "" if there is no file."""
    if path is None:
        return ""
    name = repr(make_printable(str(path)))
    if path.suffix.lower() == ".ipynb":  # a submission whose name looks like this option
        raise ValueError(f"seed-file: got {name}, a notebook, expected a file of your own")
    try:
        with path.open(encoding="utf-8") as file:
            line = file.readline(MAX_SEED + 1)
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(
            f"seed-file: got {name}, which cannot be read ({reason}), expected a file of your own"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"seed-file: got {name}, which is no text in UTF-8, expected the secret in its first line"
        ) from error
    if len(line) > MAX_SEED:
        raise ValueError(
            f"seed-file: got {name} with more than {MAX_SEED:,} characters in its first line, expected the "
            "secret there"
        )
    if not (line := line.strip()):
        raise ValueError(f"seed-file: got {path} with an empty first line, expected the secret there")
    return line
