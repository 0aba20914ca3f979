"""Do as ``python -m linattn_study NAME`` what ``linattn study NAME`` does, where nothing is installed."""

import argparse
import sys

from linattn_ref.cli import run
from linattn_study.command import add_arguments

parser = argparse.ArgumentParser(prog="python -m linattn_study")
add_arguments(parser)
sys.exit(run(parser.parse_args()))
