"""Run the notebooks as a reader on another machine does: ``python -m linattn_book.builders.verify``.

1. Build the wheel and install it in a fresh environment, .venv-wheel. The third-party packages come from the
   environment that runs this, by a path line in a .pth file: such a folder's own .pth files are not read, so
   its editable install is not seen.
2. Check that the wheel asks for everything it imports.
3. Copy the notebooks, and nothing else, to an empty folder, run them there and compare the tagged outputs.
   Those of the exercises, with and without solutions, and of the book's pages must run too.

``--sample`` takes one notebook and the environment as it is: a quick look before a commit.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

from linattn_exercises.sets import NEEDS

from .execute import CELL_TIMEOUT
from .notebooks import KERNEL_ENV, find_chapters, find_root

# An ini file of its own, so that the notebooks inherit neither options nor warning filters of the repository.
INI = "[pytest]\naddopts = -q -p no:cacheprovider\n"
SANITIZE = "[address]\nregex: 0x[0-9a-f]+\nreplace: ADDRESS\n"
OURS = ("linattn_ref", "linattn_exercises")
PROBE = "import linattn_ref; print(linattn_ref.__file__)"


def make_environment(**extra: str) -> dict[str, str]:
    """Return the variables of a check: ours, less what could bring in the source tree or a package index."""
    dropped = {"PYTHONPATH", "PIP_FIND_LINKS", "LINATTN_CHECK_SHAPES", "PYTEST_ADDOPTS"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"} | extra


def run_pip(*arguments: str | Path, cwd: Path) -> None:
    """Run this environment's pip, offline."""
    command = [sys.executable, "-m", "pip", *map(str, arguments)]
    subprocess.run(command, cwd=cwd, env=make_environment(), check=True)


def build_wheel(root: Path) -> Path:
    """Build dist/*.whl from the tree as it is now; nothing of an earlier build can come along."""
    for name in ("build", "dist"):
        shutil.rmtree(root / name, ignore_errors=True)
    run_pip("wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "dist", ".", cwd=root)
    shutil.rmtree(root / "build", ignore_errors=True)
    (wheel,) = (root / "dist").glob("*.whl")
    return wheel


def install(wheel: Path, root: Path) -> Path:
    """Install the wheel in a new .venv-wheel and return its interpreter."""
    folder = root / ".venv-wheel"
    venv.create(folder, clear=True, with_pip=False)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run_pip("--python", python, "install", "-q", "--no-deps", wheel, cwd=root)
    site = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    ours = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (Path(site) / "third_party.pth").write_text("\n".join(ours) + "\n")
    # offline: resolves the requirements, or fails
    run_pip("--python", python, "install", "-q", wheel, cwd=root)
    return python


def find_import(python: Path, folder: Path) -> Path:
    """Return the place that the interpreter, started in `folder`, takes linattn_ref from."""
    command = [str(python), "-c", PROBE]
    found = subprocess.run(
        command, cwd=folder, env=make_environment(), check=True, capture_output=True, text=True
    )
    return Path(found.stdout.strip())


def list_imports(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Return the absolute imports of a module: the top-level name, and whether importing it runs it."""
    pending: list[tuple[ast.AST, bool]] = [(tree, True)]
    while pending:
        node, at_import = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], at_import) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0], at_import
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        pending += [(child, at_import and not inside) for child in ast.iter_child_nodes(node)]


def normalise_name(name: str) -> str:
    """Return the form in which package names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find_undeclared(package: Path, requirements: Iterable[str]) -> list[str]:
    """Return the imports of a package that its requirements do not cover, one line each.

    What runs at import must be a plain requirement. One of an extra is enough inside a function, and in a set
    of exercises that is left out without it.
    """
    plain: set[str] = set()
    extra: set[str] = set()
    for requirement in requirements:
        name = normalise_name(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
        (extra if "extra ==" in requirement else plain).add(name)
    providers = packages_distributions()
    faults = []
    for path in sorted(package.rglob("*.py")):
        for name, at_import in sorted(set(list_imports(ast.parse(path.read_text(encoding="utf-8"))))):
            if name in sys.stdlib_module_names or name in (*OURS, package.name):
                continue
            provided = {normalise_name(provider) for provider in providers.get(name, [name])}
            needed, _ = NEEDS.get(path.relative_to(package).parts[0], ("", ()))
            guarded = needed == name
            if not provided & (plain | extra if guarded or not at_import else plain):
                where = path.relative_to(package.parent)
                faults.append(f"{where} imports {name}, which the package does not require")
    return faults


def run_notebooks(python: Path, notebooks: list[Path], folder: Path) -> int:
    """Copy the notebooks to an empty folder, run and compare them there; pytest's exit status."""
    (folder / "chapters").mkdir()
    for path in notebooks:
        prefix = "" if path.parent.name == "chapters" else f"{path.parent.name}_"
        shutil.copy(path, folder / "chapters" / f"{prefix}{path.name}")
    (folder / "pytest.ini").write_text(INI)
    (folder / "sanitize.cfg").write_text(SANITIZE)
    shutil.copy(Path(__file__).with_name("patient.py"), folder / "conftest.py")
    workers = min(2, len(notebooks))
    command = [python, "-m", "pytest", "--nbval-lax", "chapters", "-c", "pytest.ini"]
    command += ["-n", str(workers), "--dist", "loadscope"]
    command += ["--nbval-current-env", "--nbval-cell-timeout", str(CELL_TIMEOUT)]
    command += ["--nbval-sanitize-with", "sanitize.cfg"]
    threads = {
        "OMP_NUM_THREADS": "1" if workers > 1 else "2",
        "OMP_WAIT_POLICY": "passive",
    }  # cores may be busy
    variables = make_environment(**KERNEL_ENV, **threads)
    return subprocess.run([str(part) for part in command], cwd=folder, env=variables).returncode


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m linattn_book.builders.verify", description=__doc__)
    parser.add_argument("--sample", action="store_true", help="one notebook, in the environment as it is")
    arguments = parser.parse_args()
    root = find_root()
    notebooks = find_chapters(root)
    if not notebooks:
        sys.exit("chapters/ holds no notebook, expected at least one")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.sample:
            sys.exit(run_notebooks(Path(sys.executable), notebooks[:1], folder))
        try:
            python = install(build_wheel(root), root)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{' '.join(map(str, error.cmd))} failed; see above")
        source = find_import(python, folder)
        if not source.is_relative_to(root / ".venv-wheel"):
            sys.exit(f"linattn_ref comes from {source}, expected the wheel in .venv-wheel")
        requirements = distribution("linattn-ref").requires or []
        packages = [source.parents[1] / ours for ours in OURS]
        if faults := [fault for package in packages for fault in find_undeclared(package, requirements)]:
            sys.exit("\n".join(faults))
        print(f"wheel: {source.parent.relative_to(root)}", flush=True)
        others = sorted([*(root / "exercises").glob("*/*.ipynb"), *(root / "book").glob("*.ipynb")])
        sys.exit(run_notebooks(python, notebooks + others, folder))


if __name__ == "__main__":
    main()
