"""Run the command ``linattn``: find the subcommands, and run the one that is asked for.

Subcommands are defined elsewhere: ``pyproject.toml`` lists them as entry points of the group
``linattn.commands``. An entry point is a function that takes the ``argparse.ArgumentParser`` of its
subcommand, adds a description and arguments, and calls ``parser.set_defaults(run=function)``. That function
takes the parsed arguments and returns the exit status. Only the subcommand that is asked for is imported.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import IO

GROUP = "linattn.commands"


class Parser(argparse.ArgumentParser):
    """Parse arguments, and print what a terminal can show, whatever stood among the arguments."""

    def _print_message(self, message: str, file: IO[str] | None = None) -> None:  # type: ignore[override]
        super()._print_message(make_showable(message), file)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit status.

    Args:
        arguments: the words after ``linattn``; default None, those of the command line.

    Returns:
        What the subcommand returned, 2 for an error whose message was printed, 130 for Ctrl-C.

    Raises:
        SystemExit: for ``--help`` (status 0) and for a wrong command line (status 2), as argparse does.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = Parser(
        prog="linattn",
        description="Tools of the Linear Attention Book.",
        epilog="linattn COMMAND --help says what a command does.",
    )
    entries = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    names = ", ".join(entry.name for entry in entries)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", help=f"one of {names}")
    asked = given[0] if given else ""
    for entry in entries:
        command = commands.add_parser(entry.name)
        if entry.name == asked:  # the others are only listed
            entry.load()(command)
    for word in given:
        if word.startswith("-") and os.path.lexists(word):  # a shell has put it in the place of *
            parser.error(f"arguments: got {word!r}, which is a file here; write ./* for all files")
    return run(parser.parse_args(given))


def make_showable(text: str) -> str:
    """Return a text without what a terminal obeys: names of files may hold it."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def run(options: argparse.Namespace) -> int:
    """Call ``options.run(options)`` and return its exit status.

    Errors whose message explains them, such as that of a wrong argument or a missing file, are printed
    without a traceback. All others are raised.

    Args:
        options: the parsed arguments, with the function ``run`` that the subcommand has set.

    Returns:
        What ``options.run`` returned, 2 after a printed error, 130 after Ctrl-C.
    """
    try:
        return options.run(options)
    except (ValueError, OSError, RuntimeError, ImportError, FloatingPointError) as error:
        print(f"linattn: {make_showable(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nlinattn: stopped. The same command goes on from what was saved.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
