"""The command ``linattn``. Every room of the project adds its subcommands through an entry point.

An entry point of the group ``linattn.commands`` is a function of an ``argparse.ArgumentParser``: it describes
the subcommand, adds its arguments, and sets ``run``, which takes the parsed arguments and returns the exit
status. Only the subcommand that is asked for is imported.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

GROUP = "linattn.commands"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit status: 2 for an error that has been explained, 130 for Ctrl-C."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
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
        if entry.name == asked:
            entry.load()(command)
    return run(parser.parse_args(given))


def run(options: argparse.Namespace) -> int:
    """Call ``options.run`` and return its exit status; what it explains in an error is printed in a line."""
    try:
        return options.run(options)
    except (ValueError, OSError, RuntimeError, ImportError, FloatingPointError) as error:
        print(f"linattn: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nlinattn: stopped. The same command goes on from here.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
