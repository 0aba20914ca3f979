"""Build the command that starts the sandbox worker, as isolated as was asked for."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from linattn_exercises import serialization
from linattn_exercises.grading.processes import SCRATCH
from linattn_exercises.watch import LIBRARIES

ISOLATIONS = ("bubblewrap", "process")
PACKAGE = Path(serialization.__file__).parent
SCRIPTS = [PACKAGE / "grading" / "sandbox_worker.py"]
KERNELS = [f"kernel_{name}" for name in ("memory", "front", "numbers", "orders", "code", "machine", "rules")]
KERNELS += ["launches", "kernel_texts"]
SCRIPTS += [PACKAGE / f"{name}.py" for name in ("serialization", *KERNELS, "watch")]  # as they are loaded
SCRIPTS += [PACKAGE / "grading" / name for name in ("reading.py", "processes.py")]
PYTHON = os.path.abspath(sys.executable)  # bubblewrap starts programs from another folder
SCRATCH_BYTES = 64_000_000  # that a sandbox has for files, in each of its folders
# Parts of /usr that no program needs, and where people put files for others. What Python needs is shown also
# if it lies in one of these.
SHARED = [Path("/usr/local/share"), Path("/usr/local/src"), Path("/usr/src")]
# Where memory is short the kernel ends sandboxes first, not the grader.
# Files of /proc that are about the whole machine.
HOST_FILES = [f"/proc/{name}" for name in ("kpagecount", "kpageflags", "kpagecgroup", "slabinfo", "iomem")]
HOST_FILES += [f"/proc/{name}" for name in ("timer_list", "vmallocinfo", "kmsg", "kcore")]
FIRST_TO_DIE = ["/bin/sh", "-c", 'echo 1000 > /proc/self/oom_score_adj; exec "$@"', "sh"]
TOTAL_BYTES = (
    6_000_000_000  # of memory that a worker and all answers that it runs may take, where systemd limits it
)


def build_command(
    isolation: str, own_code: bool = False, hidden: Sequence[Path] = (), core: int | None = None
) -> list[str]:
    """Return the command that starts the sandbox worker.

    Args:
        isolation: "bubblewrap" or "process".
        own_code: whether the book's package is left out.
        hidden: folders and files that must not be seen; a process without bubblewrap sees them all the same.
        core: the processor core that answers run on; None is any.

    Returns:
        The words of the command. ``python -I`` leaves out packages that a user has installed for themselves,
        so the last words say where all packages lie.
    """
    if isolation == "process":
        return [PYTHON, "-I", *map(str, SCRIPTS), *_list_package_folders()]
    inside = [f"/grader/{script.name}" for script in SCRIPTS]
    return [
        *_build_scope(),
        *_build_bubblewrap(dict(zip(SCRIPTS, inside, strict=True)), own_code, hidden, core),
        "--",
        PYTHON,
        "-I",
        *inside,
        *_list_package_folders(),
    ]


@cache
def _build_scope() -> list[str]:
    """Return words that put a command into a control group with limited memory, where systemd gives one."""
    program = shutil.which("systemd-run")
    if program is None:
        return []
    words = [program, "--user", "--scope", "--quiet", "--collect"]
    words += ["-p", f"MemoryMax={TOTAL_BYTES}", "-p", "MemorySwapMax=0", "--"]
    try:
        environment = build_environment(os.sep) | find_session()  # as a worker is started
        tried = subprocess.run(
            [*words, "true"], env=environment, capture_output=True, timeout=10, check=False
        )
        works = tried.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return []
    return words if works else []


def find_session() -> dict[str, str]:
    """Return the variables by which systemd finds the user's session; bubblewrap hands none of them on."""
    names = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
    return {name: os.environ[name] for name in names if name in os.environ}


def _build_bubblewrap(
    scripts: dict[Path, str], own_code: bool, hidden: Sequence[Path], core: int | None
) -> list[str]:
    """Return a command that hides the network, other processes, and all files but Python's (read-only).

    The worker is process 1: no process of the sandbox can then read it or end it.

    Args:
        scripts: from each file that the worker is made of to its path in the sandbox.
        own_code: whether the book's package is left out.
        hidden: folders and files that must not be seen even if they lie among Python's.
        core: the processor core that answers run on; None is any.
    """
    words = [*FIRST_TO_DIE, shutil.which("bwrap") or "bwrap"]
    words += ["--unshare-all", "--die-with-parent", "--new-session"]
    words += ["--as-pid-1", "--clearenv", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    # Shared memory of /dev/zero belongs to no process that could be looked at.
    words += ["--dev-bind", os.devnull, "/dev/zero"]
    words += [
        "--tmpfs",
        "/dev/pts",
        "--remount-ro",
        "/dev/pts",
    ]  # terminals are counted for the whole machine
    words += ["--ro-bind", "/proc/sys", "/proc/sys"]  # root may write there
    for place in filter(os.path.exists, HOST_FILES):  # and root may read these
        words += ["--ro-bind", os.devnull, place]
    words += ["--unshare-user", "--disable-userns"] if _knows("--disable-userns") else []
    words += ["--tmpfs", "/tmp"]  # before --ro-bind, since what is bound may lie below /tmp
    for path in SCRATCH:
        words += ["--size", str(SCRATCH_BYTES), "--tmpfs", path]
    ours = [] if own_code else _list_folders("linattn_ref")
    needed = [*_list_needed(), *ours]
    masked = [PACKAGE, *SHARED, *hidden, *(_list_folders(*LIBRARIES) if own_code else [])]
    words += _mount(needed, _find_places(tuple(masked), tuple(needed)))
    for script, inside in scripts.items():
        words += ["--ro-bind", str(script), inside]
    words += [word for path in ("/proc", "/dev", "/tmp", "/") for word in ("--remount-ro", path)]
    for name, value in {**build_environment(SCRATCH[0], own_code, core), "LINATTN_SANDBOX": "1"}.items():
        words += ["--setenv", name, value]
    return [*words, "--chdir", SCRATCH[0]]


def _mount(needed: Sequence[Path], masked: Sequence[Path]) -> list[str]:
    """Return the words that show some paths and hide others, the outer ones first.

    What lies in a hidden folder is hidden with it: a mount of its own would show its name.
    """
    words: list[str] = []
    covers = [path for path in dict.fromkeys(masked) if path not in needed]
    is_shown = {**dict.fromkeys(covers, False), **dict.fromkeys(needed, True)}
    inner = []
    for path in sorted(is_shown, key=lambda path: len(path.parts)):
        if is_shown[path]:
            words += ["--ro-bind", str(path), str(path)]
        elif not next((is_shown[outer] for outer in path.parents if outer in is_shown), True):
            continue
        elif path.is_dir():
            words += ["--tmpfs", str(path)]
            inner.append(path)
        else:
            words += ["--ro-bind", os.devnull, str(path)]
    return words + [word for path in inner for word in ("--remount-ro", str(path))]


@cache  # there may be thousands, and a worker is started for each thread and after some answers
def _find_places(paths: tuple[Path, ...], needed: tuple[Path, ...]) -> list[Path]:
    """Return where in the sandbox paths would be seen, since they lie in folders that are shown."""
    targets = {folder: folder.resolve() for folder in needed}
    found = []
    for real in (path.resolve() for path in paths):
        for folder, target in targets.items():
            if real != target and real.is_relative_to(target) and real.exists():
                found.append(folder / real.relative_to(target))
    return found


@cache
def _knows(option: str) -> bool:
    """Return whether this bubblewrap has an option; ``--disable-userns`` came with 0.8."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return False
    return option in subprocess.run([bwrap, "--help"], capture_output=True, text=True, check=False).stdout


def _list_package_folders() -> list[str]:
    """Return the folders of installed packages."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def _list_folders(*packages: str) -> list[Path]:
    """Return the folders of those packages that are installed."""
    specs = [find_spec(name) for name in packages]
    return [Path(spec.origin).parent for spec in specs if spec and spec.origin]


def _list_needed() -> list[Path]:
    """Return the paths that exist of those that Python and torch are loaded from.

    Of an environment these are the parts that Python reads: it may lie in a folder with other things.
    """
    system = ["/usr", "/lib", "/lib64", "/lib32", "/bin", "/etc/ld.so.cache", "/etc/alternatives"]
    homes = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent.parent]
    parts = [home / part for home in homes for part in ("bin", "lib", "lib64", "pyvenv.cfg")]
    every = [*map(Path, system), *parts, *map(Path, _list_package_folders())]
    return [path for path in dict.fromkeys(every) if path.exists()]


def build_environment(folder: str, own_code: bool = False, core: int | None = None) -> dict[str, str]:
    """Return all environment variables of the worker: what an answer may know about the machine."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    place = {"HOME": folder, "TMPDIR": folder, "PATH": os.defpath, "LANG": "C.UTF-8"}
    quiet = {"MPLBACKEND": "Agg", "PLOTLY_RENDERER": "json", "LINATTN_STATIC": "1"}
    quiet |= {"TORCHDYNAMO_DISABLE": "1"}  # there is no compiler: what torch.compile is given runs as it is
    own = {"LINATTN_OWN_CODE": "1", "TRITON_INTERPRET": "1"} if own_code else {}
    own |= {} if core is None else {"LINATTN_CORE": f"{core}"}
    return {**threads, **place, **quiet, **own, "CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "0"}
