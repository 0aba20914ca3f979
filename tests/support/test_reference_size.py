"""The reference stays small: its lines, its entries, and what importing it costs."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import linattn_ref

ROOT = Path(linattn_ref.__file__).parent
HEAVY = {"plotly", "scipy", "pandas", "triton", "matplotlib", "transformers", "fla", "filelock", "IPython"}
# A program: print the seconds that importing the reference takes beside torch, and what that brings.
IMPORTS = """
import sys, time
import torch
before = set(sys.modules)
start = time.perf_counter()
import linattn_ref.ops, linattn_ref.mixers, linattn_ref.model, linattn_ref.training, linattn_ref.costs
import linattn_ref.interop
print(time.perf_counter() - start)
print(*{name.split(".")[0] for name in set(sys.modules) - before})
"""


def code_lines(file: Path) -> int:
    """Return the number of lines with code: no blank lines, comments or docstrings."""
    text = file.read_text("utf-8")
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            prose |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for n, x in lines if x.strip() and not x.strip().startswith("#") and n not in prose)


def test_the_reference_can_be_read_in_a_weekend() -> None:
    assert sum(map(code_lines, ROOT.rglob("*.py"))) <= 5500


def test_a_newcomer_meets_twelve_entries() -> None:
    entries = {path.name for path in ROOT.iterdir()} - {"__pycache__"}
    assert len(entries) <= 12, sorted(entries)


def test_importing_the_reference_is_quick_and_brings_nothing_heavy() -> None:
    """As readers import it, without the annotation checks of the tests; measured: 0.07 s."""
    environment = {key: value for key, value in os.environ.items() if key != "LINATTN_CHECK_SHAPES"}
    command = [sys.executable, "-c", IMPORTS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds, brought = done.stdout.splitlines()
    assert float(seconds) < 1
    assert "linattn_ref" in brought.split()
    assert HEAVY & set(brought.split()) == set()
