"""What decides a number: moves, names and words do not, everything else does."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from linattn_book import provenance
from linattn_book.provenance import code_hash, find_imported, read_commit

MAIN = '''"""What is computed."""

import math
from torch.nn import functional as F

from ours.parts import LIMIT, clipped, doubled


def answer(x: float, times: int = 2) -> float:
    """Return the answer."""
    total = 0.0
    for _ in range(times):
        total += clipped(doubled(x) + math.exp(x))  # a remark
    return F.relu(total - LIMIT)


def other(x):
    return answer(x, times=3)
'''
PARTS = """LIMIT = 3.5


def clipped(x):
    return min(x, LIMIT)


def doubled(x):
    return 2 * x


class Keeper:
    def __init__(self, low, high):
        self.low = low
        self.high = high

    def width(self):
        return self.high - self.low
"""
Files = dict[str, str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "ours"]:
        del sys.modules[name]


def hashed(folder: Path, files: Files, root: str = "ours.main") -> str:
    package = folder / "ours"
    for file in package.rglob("*.py"):
        file.unlink()
    for name, text in {"__init__.py": "", **files}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return code_hash(root, packages=("ours",))


def both(main: str = MAIN, parts: str = PARTS) -> Files:
    return {"main.py": main, "parts.py": parts}


def renamed(old: str, new: str) -> Files:
    return both(*(re.sub(rf"\b{old}\b", new, text) for text in (MAIN, PARTS)))


clipped, twice = PARTS.split("\n\n\n")[1:3]
SAME: dict[str, Files] = {
    "docstrings": both(MAIN.replace("Return the answer.", "Say it.").replace("What is computed.", "Much.")),
    "a remark": both(MAIN.replace("  # a remark", "")),
    "annotations": both(MAIN.replace("x: float, times: int", "x, times").replace(" -> float", "")),
    "layout": both(MAIN.replace("answer(x, times=3)", "(answer(\n        x,\n        times=3,\n    ))")),
    "order of definitions": both(parts=PARTS.replace(f"{clipped}\n\n\n{twice}", f"{twice}\n\n\n{clipped}")),
    "order of our imports": both(MAIN.replace("LIMIT, clipped, doubled", "doubled, LIMIT, clipped")),
    "an unused file": {**both(), "unused.py": "A = 1\n"},
    "a name of a function": renamed("clipped", "clamped"),
    "a name of a constant": renamed("LIMIT", "BOUND"),
    "a name of an argument": renamed("times", "repeats"),
    "a name of a variable": renamed("total", "sum_of_all"),
    "a name of a class": renamed("Keeper", "Interval"),
    "a module with another name": {
        "main.py": MAIN.replace("ours.parts", "ours.pieces"), "pieces.py": PARTS
    },
    "a module in a package": {
        "main.py": MAIN.replace("ours.parts", "ours.inside.parts"),
        "inside/__init__.py": "",
        "inside/parts.py": PARTS,
    },
    "a function in another module": {
        "main.py": MAIN.replace(
            "from ours.parts import LIMIT, clipped, doubled",
            "from ours.more import doubled\nfrom ours.parts import LIMIT, clipped",
        ),
        "parts.py": PARTS.replace(twice + "\n\n\n", ""),
        "more.py": twice + "\n",
    },
}  # fmt: skip
OTHER: dict[str, Files] = {
    "a constant": both(parts=PARTS.replace("3.5", "3.25")),
    "a number": both(parts=PARTS.replace("2 * x", "3 * x")),
    "an operator": both(parts=PARTS.replace("2 * x", "2 + x")),
    "a default": both(MAIN.replace("times: int = 2", "times: int = 3")),
    "a call of ours": both(MAIN.replace("doubled(x) +", "clipped(x) +")),
    "calls of ours swapped": both(MAIN.replace("clipped(doubled(x)", "doubled(clipped(x)")),
    "a foreign function": both(MAIN.replace("math.exp", "math.expm1")),
    "a foreign module": both(MAIN.replace("F.relu", "F.silu")),
    "a foreign import": both(MAIN.replace("torch.nn import functional", "torch import special")),
    "a built-in": both(parts=PARTS.replace("min(x", "max(x")),
    "arguments swapped": both(parts=PARTS.replace("min(x, LIMIT)", "min(LIMIT, x)")),
    "fields swapped": both(parts=PARTS.replace("self.high - self.low", "self.low - self.high")),
    "order of statements": both(
        parts=PARTS.replace(
            "self.low = low\n        self.high = high", "self.high = high\n        self.low = low"
        )
    ),
    "a keyword": both(MAIN.replace("answer(x, times=3)", "answer(x=3, times=x)")),
    "a decorator": both(parts=PARTS.replace("def doubled", "@float\ndef doubled")),
    "a name that tensors have, too": both(MAIN.replace("total = 0.0", "relu = F.relu(x)\n    total = 0.0")),
    "a method that a variable is called as": both(parts=PARTS + "def mean(x):\n    mean = x.mean()\n"),
    "another such": both(parts=PARTS + "def mean(x):\n    median = x.median()\n"),
    "what Python calls itself": both(parts=PARTS.replace("__init__", "__call__")),
    "order of assignments": both(parts=PARTS.replace("LIMIT = 3.5", "LIMIT = 3.5\nLIMIT = 2.5")),
    "the other order": both(parts=PARTS.replace("LIMIT = 3.5", "LIMIT = 2.5\nLIMIT = 3.5")),
    "a field": renamed("low", "least"),
    "a new definition": both(parts=PARTS + "\n\ndef third(x):\n    return x\n"),
}


@pytest.mark.parametrize("change", SAME)
def test_what_decides_nothing_does_not_count(folder: Path, change: str) -> None:
    assert SAME[change] != both()
    assert hashed(folder, SAME[change]) == hashed(folder, both())


@pytest.mark.parametrize("change", OTHER)
def test_what_may_change_a_number_counts(folder: Path, change: str) -> None:
    assert OTHER[change] != both()
    assert hashed(folder, OTHER[change]) != hashed(folder, both())


def test_all_changes_have_hashes_of_their_own(folder: Path) -> None:
    assert len({hashed(folder, files) for files in OTHER.values()}) == len(OTHER)


def test_a_module_is_left_out_with_what_it_alone_imports(folder: Path) -> None:
    files = {
        "main.py": "from ours import registry\nfrom ours.used import a\n",
        "registry.py": "from ours import unused, used\n",
        "used.py": "a = 1\n",
        "unused.py": "b = 2\n",
    }
    hashed(folder, files)
    every = ["ours", "ours.main", "ours.registry", "ours.unused", "ours.used"]  # ours itself: main names it
    assert find_imported("ours.main", packages=("ours",)) == every
    without = find_imported("ours.main", packages=("ours",), without=["ours.registry"])
    assert without == ["ours", "ours.main", "ours.used"]


def test_a_package_on_the_way_to_a_module_does_not_count(folder: Path) -> None:
    files = {"main.py": "from ours.inside.used import a\n", "inside/used.py": "a = 1\n"}
    leads_on = {"inside/__init__.py": "from ours.inside.unused import b\n", "inside/unused.py": "b = 2\n"}
    assert hashed(folder, files | leads_on) == hashed(folder, files | {"inside/__init__.py": ""})
    assert find_imported("ours.main", packages=("ours",)) == ["ours.inside.used", "ours.main"]


def test_a_mixer_that_is_not_used_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed(*mixers: str) -> str:
        return code_hash("linattn_ref.model", mixers=mixers)

    before = hashed("gla", "tnl")
    assert before == hashed("tnl", "gla")
    assert len({before, hashed("gla"), hashed(), code_hash("linattn_ref.model")}) == 4
    monkeypatch.setitem(provenance.MIXERS, "new", type("New", (), {"__module__": "linattn_ref.mixers.rwkv"}))
    assert before == hashed("gla", "tnl") != hashed("gla", "tnl", "new")


@pytest.mark.parametrize("modules", [(), ("ours.nothing",), ("torch.nn",)])
def test_a_wrong_module_is_named(modules: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"^modules: got .*, expected "):
        code_hash(*modules, packages=("ours",))


def test_the_hash_is_that_of_another_process() -> None:
    program = "from linattn_book.provenance import code_hash; print(code_hash('linattn_ref.ops'))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == code_hash("linattn_ref.ops")


CODE = '''"""A module."""
import math as m  # a comment

class Wave:
    """A class."""
    speed: float = 2.0

    def at(self, x, *, names=(), **rest):
        """A method."""
        return f"{m.sin(self.speed * x)!r:>{len(names)}} \u00b5 {x=}", [None, *names, -1e-3], {**rest}
'''


def test_the_hash_is_the_same_in_every_python(folder: Path) -> None:
    found = hashed(folder, {"main.py": CODE})
    assert found == "c0d8c1faf421c4f3c8f6a49b226ce8fe93092ffb4661390eab69d44562a27b8e"


def test_the_commit_is_that_of_the_checkout_or_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"[0-9a-f]{40}(\+changes)?", read_commit() or "")
    monkeypatch.setenv("LINATTN_COMMIT", "abc")
    assert read_commit() == "abc"
