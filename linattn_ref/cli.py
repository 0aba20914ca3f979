"""The command ``linattn``. What a subcommand needs is imported when it is called."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; its exit status."""
    parser = argparse.ArgumentParser(prog="linattn", description="Tools of the Linear Attention Book.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_grade(commands.add_parser("grade", help="grade notebooks with exercises", description=GRADE))
    _add_study(commands.add_parser("study", help="train the models of a study", description=STUDY))
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"linattn: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nlinattn: stopped. The same command goes on from here.", file=sys.stderr)
        return 130


# --- grade ----------------------------------------------------------------------------------------------

GRADE = (
    "Grade notebooks, or all notebooks of a folder, and write DIR/marks.csv, marks.json, totals.csv and "
    "a page of feedback for each. A run that was stopped goes on where it was; a notebook that has changed "
    "is graded again."
)


def _add_grade(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "submissions", nargs="+", type=Path, metavar="SUBMISSION", help="notebooks or folders"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="where marks and feedback go")
    seed = parser.add_mutually_exclusive_group()
    seed.add_argument(
        "--seed", default="", help="secret for the hidden inputs; default: drawn once, kept in DIR"
    )
    seed.add_argument("--seed-file", type=Path, metavar="FILE", help="a file whose first line is the secret")
    parser.add_argument(
        "--set", default="", dest="default", help="the set of notebooks that do not name theirs"
    )
    parser.add_argument("--jobs", type=int, default=0, help="notebooks at a time; default: one per core")
    parser.add_argument("--cpu", type=int, default=5, metavar="SECONDS", help="processor time a question (5)")
    parser.add_argument("--memory", type=int, default=1000, metavar="MB", help="memory a question (1000)")
    choices = ("auto", "bubblewrap", "process")
    parser.add_argument(
        "--isolation", choices=choices, default="auto", help="default: the best that works here"
    )
    parser.set_defaults(run=_grade)


def _grade(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from linattn_exercises.grading import Grader, Limits, tables
    from linattn_exercises.grading.entries import entries
    from linattn_exercises.grading.marks import Graded
    from linattn_exercises.plain import printable

    for name, most in (("cpu", 3600), ("memory", 1_000_000)):
        if not 1 <= getattr(options, name) <= most:
            raise ValueError(f"{name}: got {getattr(options, name)}, expected 1 to {most:,}")
    every, left_out = entries(options.submissions, options.out)
    if not every:
        raise ValueError(
            f"submissions: got no notebook (*.ipynb) in {', '.join(map(str, options.submissions))}"
        )
    limits = Limits(cpu=options.cpu, wall=3 * options.cpu, memory=options.memory * 10**6)
    seed = options.seed or _first_line(options.seed_file)
    grader = Grader(
        options.out,
        seed=seed,
        isolation=options.isolation,
        limits=limits,
        jobs=options.jobs,
        default=options.default,
    )
    if grader.isolation == "process":
        print(
            "linattn: answers run without bubblewrap, as you: limited in time, not in what they can read.",
            file=sys.stderr,
        )
    before = 0
    with tqdm(total=len(every), unit="notebook", file=sys.stderr) as bar:

        def done(graded: Graded, kept: bool) -> None:
            nonlocal before
            before += kept
            bar.update()

        results = grader.grade(every, done)
    tables.write(options.out, results)
    failed = [f"{one.name}: {one.fault}" for one in results if one.fault]
    print(f"{len(every) - before} graded, {before} as before: {options.out / 'marks.csv'}")
    for path in left_out:
        print(f"left out, no notebook: {printable(str(path))}")
    for line in failed:
        print(f"not graded: {line}", file=sys.stderr)
    return 1 if failed else 0


def _first_line(path: Path | None) -> str:
    if path is None:
        return ""
    line = path.read_text(encoding="utf-8").split("\n", 1)[0].strip()
    if not line:
        raise ValueError(f"seed-file: got {path} with an empty first line, expected the secret there")
    return line


# --- study ----------------------------------------------------------------------------------------------

STUDY = (
    "Train all models of a study on all GPUs; or, as NAME, corpora: prepare its texts. What was done is kept "
    "in --out; the same command goes on where it was stopped."
)


def _add_study(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="a study, or corpora")
    add("--out", type=Path, metavar="DIR", help="where runs are kept; default: runs/NAME")
    add("--corpora", type=Path, default=Path("runs/corpora"), metavar="DIR", help="prepared texts")
    add("--novels", type=Path, metavar="PATH", help="corpora: the ELTeC-eng release; default: fetched")
    add("--code", type=Path, metavar="DIR", help="corpora: the source archives; default: fetched")
    more = "corpora: your own text, a file or folder, or hf:DATASET of the Hugging Face hub"
    add("--add", nargs="+", default=[], metavar="NAME=PATH", help=more)
    add("--pattern", default="*.txt", help="of the files of a folder in --add (*.txt)")
    add("--corpus", nargs="+", default=[], metavar="NAME", help="train on these instead of the study's")
    add("--only", default="", metavar="TEXT", help="only runs, or corpora, with this in their name")
    add("--workers", type=int, default=0, metavar="N", help="default: one per GPU, or one on the CPU")
    add("--backend", choices=("auto", "reference", "triton"), default="auto", help="default: triton on GPUs")
    add("--minutes", type=float, metavar="M", help="stop at the first evaluation after M minutes")
    known = "leave out runs that NAME.csv in DIR has, of this source and this kind of device"
    add("--known", type=Path, metavar="DIR", help=known)
    add("--whole", action="store_true", help="with --minutes: begin no run that would not end in time")
    add("--list", action="store_true", help="print the names of the runs, and how far they are")
    add("--collect", type=Path, metavar="DIR", help="write NAME.csv and index.json of what is done into DIR")
    add("--as", dest="table", metavar="NAME", help="with --collect: of the tables; default: the study's")
    add("--fit", type=Path, metavar="DIR", help="fit all laws to NAME.csv of DIR: NAME_fits.csv")
    add(
        "--worker", action="store_true", help="work in this process, on its first GPU; under torchrun, on all"
    )
    parser.set_defaults(run=_study)


def _study(options: argparse.Namespace) -> int:
    from linattn_ref.study import command

    return command.run(options)


if __name__ == "__main__":
    sys.exit(main())
