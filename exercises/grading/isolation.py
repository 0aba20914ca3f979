"""Build the command that starts the sandbox worker, as isolated as was asked for."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from linattn_exercises import serialization
from linattn_exercises.grading.processes import SCRATCH

ISOLATIONS = ("auto", "bubblewrap", "process")
PACKAGE = Path(serialization.__file__).parent
SCRATCH_BYTES = 64_000_000  # that a sandbox has for files, in each of its folders


def build_command(isolation: str) -> list[str]:
    """Return the command that starts the sandbox worker.

    Args:
        isolation: "bubblewrap" or "process".

    Returns:
        The words of the command. ``python -I`` leaves out packages that a user has installed for themselves,
        so the last words say where all packages lie.
    """
    grading = PACKAGE / "grading"
    scripts = grading / "sandbox_worker.py", PACKAGE / "serialization.py", grading / "processes.py"
    if isolation == "process":
        return [sys.executable, "-I", *map(str, scripts), *_list_package_folders()]
    inside = [f"/grader/{script.name}" for script in scripts]
    return [
        *_build_bubblewrap(dict(zip(scripts, inside, strict=True))),
        "--",
        sys.executable,
        "-I",
        *inside,
        *_list_package_folders(),
    ]


def _build_bubblewrap(scripts: dict[Path, str]) -> list[str]:
    """Return a command that hides the network, other processes, and all files but Python's (read-only).

    The worker is process 1: no process of the sandbox can then read it or end it.

    Args:
        scripts: from each file that the worker is made of to its path in the sandbox.
    """
    words = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
    words += ["--as-pid-1", "--clearenv", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    words += ["--tmpfs", "/tmp"]  # before --ro-bind, since what is bound may lie below /tmp
    for path in SCRATCH:
        words += ["--size", str(SCRATCH_BYTES), "--tmpfs", path]
    for path in _list_needed():
        words += ["--ro-bind", path, path]
    if any(PACKAGE.is_relative_to(path) for path in _list_needed()):
        words += ["--tmpfs", str(PACKAGE), "--remount-ro", str(PACKAGE)]  # the checks came along: hide them
    for script, inside in scripts.items():
        words += ["--ro-bind", str(script), inside]
    words += ["--remount-ro", "/dev", "--remount-ro", "/tmp", "--remount-ro", "/"]
    for name, value in {**build_environment(SCRATCH[0]), "LINATTN_SANDBOX": "1"}.items():
        words += ["--setenv", name, value]
    return [*words, "--chdir", SCRATCH[0]]


def _list_package_folders() -> list[str]:
    """Return the folders of installed packages."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def _list_needed() -> list[str]:
    """Return the paths that exist of those that Python, torch and linattn_ref are loaded from."""
    system = ["/usr", "/lib", "/lib64", "/lib32", "/bin", "/etc/ld.so.cache", "/etc/alternatives"]
    homes = [sys.prefix, sys.base_prefix, Path(sys.executable).resolve().parent.parent]
    ours = find_spec("linattn_ref")
    package = [Path(ours.origin).parent] if ours and ours.origin else []
    every = map(str, (*system, *homes, *_list_package_folders(), *package))
    return list(dict.fromkeys(path for path in every if os.path.exists(path)))


def build_environment(folder: str) -> dict[str, str]:
    """Return all environment variables of the worker: what an answer may know about the machine."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    place = {"HOME": folder, "TMPDIR": folder, "PATH": os.defpath, "LANG": "C.UTF-8"}
    quiet = {"MPLBACKEND": "Agg", "PLOTLY_RENDERER": "json", "LINATTN_STATIC": "1"}
    return {**threads, **place, **quiet, "CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "0"}
