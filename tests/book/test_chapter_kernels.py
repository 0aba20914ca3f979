"""Kernels that readers see compile: those of chapters, and the solutions of exercises.

The interpreter, in which all their results are checked, is Python and takes what Triton's compiler refuses.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from linattn_book.builders.notebooks import find_chapters, find_code_cells, find_root, read_notebook

ROOT = find_root(Path(__file__))
CONSTANTS = {"TILE": 16, "C": 16, "D": 16, "K": 16, "V": 16, "LEVELS": 4}  # small ones compile sooner
NUMBERS = {"scale": "fp32", "g": "fp32"} | dict.fromkeys(("n", "T", "L", "n_columns", "segments"), "i32")

COMPILE = """
import json, sys
import kernels
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from triton.runtime.jit import JITFunction

constants, numbers = map(json.loads, sys.argv[1:])
found = {name: one for name, one in vars(kernels).items() if isinstance(one, JITFunction)}
for name, kernel in found.items():
    kinds = {p.name: "constexpr" if p.is_constexpr else numbers.get(p.name, "*fp32") for p in kernel.params}
    given = {(n,): constants[p.name] for n, p in enumerate(kernel.params) if p.is_constexpr}
    try:
        compile(ASTSource(kernel, kinds, given), target=GPUTarget("cuda", 80, 32))
    except Exception as error:
        print(f"{name}: {error}")
print(f"{len(found)} kernels")
"""


def list_sources() -> list[str]:
    """Return the Python texts in which readers see kernels, without the magic commands of notebooks."""
    cells = [cell.source for path in find_chapters(ROOT) for cell in find_code_cells(read_notebook(path))]
    masters = [path.read_text("utf-8") for path in sorted(ROOT.glob("exercises/ch*/master/q*.py"))]
    return [text for text in cells + masters if "@triton.jit" in text]


def cut_kernels(source: str) -> list[str]:
    """Return the functions under ``triton.jit`` in a text."""
    functions = [one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)]
    kernels = [one for one in functions if "triton.jit" in map(ast.unparse, one.decorator_list)]
    return [f"@triton.jit\n{ast.get_source_segment(source, one)}\n" for one in kernels]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Triton is made for Linux")
def test_kernels_on_the_pages_compile(tmp_path: Path) -> None:
    """In a process of its own: here Triton is an interpreter."""
    kernels = [kernel for source in list_sources() for kernel in cut_kernels(source)]
    assert len(kernels) > 10
    kernels = [one.replace("(", f"_{n}(", 1) for n, one in enumerate(kernels)]  # two may have one name
    text = "\n\n".join(["import triton\nimport triton.language as tl\n", *kernels])
    (tmp_path / "kernels.py").write_text(text, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("TRITON_INTERPRET", None)
    words = [sys.executable, "-c", COMPILE, json.dumps(CONSTANTS), json.dumps(NUMBERS)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == f"{len(kernels)} kernels\n"
