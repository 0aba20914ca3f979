"""The command that starts the process that runs answers, as isolated as was asked for."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from linattn_exercises import plain
from linattn_exercises.grading.processes import SCRATCH

ISOLATIONS = ("auto", "bubblewrap", "process")
PACKAGE = Path(plain.__file__).parent
SCRATCH_BYTES = 64_000_000  # that a sandbox has for files, in each of its folders


def command(isolation: str) -> list[str]:
    """The command that starts the server; where packages lie is told, as the server sees no user's site."""
    scripts = PACKAGE / "grading" / "answers.py", PACKAGE / "plain.py", PACKAGE / "grading" / "processes.py"
    if isolation == "process":
        return [sys.executable, "-I", *map(str, scripts), *_packages()]
    inside = [f"/grader/{script.name}" for script in scripts]
    return [
        *_bubblewrap(dict(zip(scripts, inside, strict=True))),
        "--",
        sys.executable,
        "-I",
        *inside,
        *_packages(),
    ]


def _bubblewrap(scripts: dict[Path, str]) -> list[str]:
    """No network, no other processes, no files but Python and what it imports, all of that read-only.

    The server is process 1: no process of the sandbox can then read it or end it.
    """
    words = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
    words += ["--as-pid-1", "--clearenv", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    words += ["--tmpfs", "/tmp"]  # what we need may lie in there
    for path in SCRATCH:
        words += ["--size", str(SCRATCH_BYTES), "--tmpfs", path]
    for path in _needed():
        words += ["--ro-bind", path, path]
    if any(PACKAGE.is_relative_to(path) for path in _needed()):
        words += ["--tmpfs", str(PACKAGE), "--remount-ro", str(PACKAGE)]  # installed where Python looks
    for script, inside in scripts.items():
        words += ["--ro-bind", str(script), inside]
    words += ["--remount-ro", "/dev", "--remount-ro", "/tmp", "--remount-ro", "/"]
    for name, value in {**environment(SCRATCH[0]), "LINATTN_SANDBOX": "1"}.items():
        words += ["--setenv", name, value]
    return [*words, "--chdir", SCRATCH[0]]


def _packages() -> list[str]:
    """The folders of installed packages."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def _needed() -> list[str]:
    """What Python needs to start and to import torch and linattn_ref, as far as it exists."""
    system = ["/usr", "/lib", "/lib64", "/lib32", "/bin", "/etc/ld.so.cache", "/etc/alternatives"]
    homes = [sys.prefix, sys.base_prefix, Path(sys.executable).resolve().parent.parent]
    ours = find_spec("linattn_ref")
    package = [Path(ours.origin).parent] if ours and ours.origin else []
    every = map(str, (*system, *homes, *_packages(), *package))
    return list(dict.fromkeys(path for path in every if os.path.exists(path)))


def environment(folder: str) -> dict[str, str]:
    """All that an answer may know about the machine it runs on."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    place = {"HOME": folder, "TMPDIR": folder, "PATH": os.defpath, "LANG": "C.UTF-8"}
    quiet = {"MPLBACKEND": "Agg", "PLOTLY_RENDERER": "json", "LINATTN_STATIC": "1"}
    return {**threads, **place, **quiet, "CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "0"}
