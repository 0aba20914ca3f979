"""The reference stays one that is read in a weekend: its size, its entries, what importing it costs."""

import ast
import subprocess
import sys
from pathlib import Path

import linattn_ref

ROOT = Path(linattn_ref.__file__).parent
HEAVY = {"plotly", "scipy", "pandas", "triton", "matplotlib", "transformers", "fla", "filelock", "IPython"}
IMPORTS = """
import sys, time
import torch
start = time.perf_counter()
import linattn_ref
print(time.perf_counter() - start)
import linattn_ref.ops, linattn_ref.mixers, linattn_ref.model, linattn_ref.training, linattn_ref.costs
import linattn_ref.interop
print(*{name.split(".")[0] for name in sys.modules})
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
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    seconds, names = done.stdout.splitlines()
    before = subprocess.run(
        [sys.executable, "-c", "import sys, torch; print(*{n.split('.')[0] for n in sys.modules})"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert float(seconds) < 0.1
    assert HEAVY & (set(names.split()) - set(before.stdout.split())) == set()
