"""Say which code decided a number: a hash that survives moves and new names, and the commit.

Rows of a table are comparable with what the code of today would give only if that code decides the same
numbers. ``code_hash`` reads the modules that a computation imports and hashes what they say, not how:

* docstrings, comments, annotations and layout do not count, nor do our own import lines;
* functions and classes are taken in an order that follows from their content, so they and files may move;
* a name that our code gives (to a module, function, argument or variable) counts as a number, the same
  wherever the name stands, so it may change everywhere at once;
* names that are not ours, names after a dot (of fields and methods, which may be those of a tensor), numbers,
  texts, operators and the order of all other statements count as they are.
"""

import ast
import hashlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from linattn_ref.mixers import MIXERS

PACKAGES = (
    "linattn_ref",
    "linattn_kernels",
    "linattn_study",
    "linattn_benchmarks",
    "linattn_book",
    "linattn_exercises",
)
MIXERS_MODULE = "linattn_ref.mixers"  # has the registry, and imports every mixer
THIS = "linattn_book.provenance"  # what says which code decided a number decides none
BINDS = {ast.FunctionDef: "name", ast.AsyncFunctionDef: "name", ast.ClassDef: "name", ast.arg: "arg"}
NAMES = {**BINDS, ast.Name: "id", ast.keyword: "arg", ast.alias: "name"}


def code_hash(
    *modules: str,
    mixers: Iterable[str] | None = None,
    without: Sequence[str] = (),
    packages: Sequence[str] = PACKAGES,
) -> str:
    """Return the sha256 of the code that ``modules`` and all that they import consist of.

    Args:
        modules: dotted names of modules or packages of ours, such as "linattn_study.loop".
        mixers: names in ``linattn_ref.mixers.MIXERS`` of those that are used; the others, and new ones, do
            not count. Default None: all count if the registry is imported.
        without: dotted names of modules that do not count, nor what is imported by way of them alone.
        packages: import packages whose code is ours.

    Raises:
        ValueError: a name that is no module of ``packages``.
    """
    if not modules:
        raise ValueError("modules: got none, expected at least one dotted name")
    if mixers is not None:
        modules = (*modules, *(MIXERS[name].__module__ for name in mixers))
        without = (*without, MIXERS_MODULE)
    trees = [_parse_file(name) for name in find_imported(*modules, without=without, packages=packages)]
    definitions = [part for tree in trees for part in _split_module(tree, packages)]
    ours = {name for tree in trees for node in ast.walk(tree) for name in _list_bound_names(node, packages)}
    modules_here = {name for tree in trees for name in _find_aliases(tree, packages)}
    say = partial(_render_tree, modules=modules_here, packages=packages)
    in_order = sorted(definitions, key=lambda node: say(node, dict.fromkeys(ours, "_")))
    mentioned = dict.fromkeys(name for node in in_order for name in _list_mentioned_names(node, modules_here))
    numbers = {name: f"#{n}" for n, name in enumerate(name for name in mentioned if name in ours)}
    text = "\n".join(say(node, numbers) for node in in_order)
    return hashlib.sha256(text.encode()).hexdigest()


def find_imported(
    *modules: str, without: Sequence[str] = (), packages: Sequence[str] = PACKAGES
) -> list[str]:
    """Return the names of ``modules`` and of all modules of ours that their import lines lead to, sorted.

    A package on the way to a module, as ``linattn_ref.ops`` is on that to ``linattn_ref.ops.delta``, counts
    only if something is imported from itself.

    Args:
        modules, without, packages: as for ``code_hash``.
    """
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found or name in (*without, THIS):
            continue
        if name.split(".")[0] not in packages or _find_file(name) is None:
            raise ValueError(f"modules: got {name!r}, expected a module of one of {', '.join(packages)}")
        found.add(name)
        for node in ast.walk(_parse_file(name)):
            waiting += [target for target in _find_targets(node, packages) if _find_file(target) is not None]
    return sorted(found)


def read_commit() -> str | None:
    """Return the commit of the checkout that this package lies in; "+changes" follows if files differ.

    The variable ``LINATTN_COMMIT`` says it on machines that get a copy without git. None: nobody knows.
    """
    if said := os.environ.get("LINATTN_COMMIT"):
        return said
    try:
        # fails where the environment lies in a foreign checkout
        _run_git("ls-files", "--error-unmatch", Path(__file__).name)
        changed = _run_git("status", "--porcelain", "-uno")
        return _run_git("rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _run_git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


# --- modules ------------------------------------------------------------------------------------------------


def _find_file(name: str) -> Path | None:
    """Return the file of a module, without importing it; None if there is no such module."""
    top, *parts = name.split(".")
    spec = find_spec(top)
    for folder in spec.submodule_search_locations or [] if spec else []:
        path = Path(folder, *parts)
        for file in (path / "__init__.py", path.with_suffix(".py")):
            if file.is_file():
                return file
    return None


def _parse_file(name: str) -> ast.Module:
    file = _find_file(name)
    assert file is not None, name
    return ast.parse(file.read_bytes(), file)


def _split_module(tree: ast.Module, packages: Sequence[str]) -> list[ast.AST]:
    """Return the functions and classes of a module, and all its other statements in one."""
    said = [x for x in tree.body if not (_is_docstring(x) or _is_our_import(x, packages))]
    movable = [x for x in said if type(x) in BINDS]
    others = [x for x in said if type(x) not in BINDS]
    return [*movable, ast.Module(others, [])] if others else [*movable]


def _find_targets(node: ast.AST, packages: Sequence[str]) -> Iterator[str]:
    """Return the modules of ours that a node may import: by an import line, or by a text that names one."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        names = [node.value]  # import_module("linattn_kernels")
    else:
        names = []
    for name in names:
        if name.split(".")[0] in packages and all(map(str.isidentifier, name.split("."))):
            yield name


def _find_aliases(tree: ast.Module, packages: Sequence[str]) -> Iterator[str]:
    """Return the names that our import lines give to modules and to what is in them."""
    for node in ast.walk(tree):
        if _is_our_import(node, packages):
            yield from _list_bound_names(node, packages)


def _is_our_import(node: ast.AST, packages: Sequence[str]) -> bool:
    if isinstance(node, ast.ImportFrom):
        return bool(node.level) or (node.module or "").split(".")[0] in packages
    return isinstance(node, ast.Import) and node.names[0].name.split(".")[0] in packages


# --- what a definition says ---------------------------------------------------------------------------------


def _list_bound_names(node: ast.AST, packages: Sequence[str]) -> Iterable[str]:
    """Return the names that a node gives to something."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if _is_our_import(node, packages):
        return [alias.asname or alias.name for alias in node.names]  # type: ignore[attr-defined]
    name = getattr(node, BINDS[type(node)]) if type(node) in BINDS else "__"
    return [] if name.startswith("__") else [name]  # Python looks for such names itself


def _name_in(node: ast.AST, modules: Iterable[str]) -> str | None:
    """Return the field of a node that holds a name which may be ours."""
    of_module = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return "attr" if of_module and node.value.id in modules else NAMES.get(type(node))  # type: ignore[attr-defined]


def _list_mentioned_names(node: ast.AST, modules: Iterable[str]) -> Iterator[str]:
    """Return the names in a definition, from its first to its last."""
    for field, value in ast.iter_fields(node):
        if field == _name_in(node, modules) and value:
            yield value
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST) and field not in ("annotation", "returns"):
                yield from _list_mentioned_names(item, modules)


def _render_tree(node: Any, names: dict[str, str], modules: Iterable[str], packages: Sequence[str]) -> str:
    """Return a syntax tree as text, with ``names`` in place of ours.

    Fields that are empty are left out, so the text is that of every version of Python.
    """
    if isinstance(node, list):
        kept = [x for x in node if not _is_docstring(x) and not _is_our_import(x, packages)]
        return f"[{', '.join(_render_tree(item, names, modules, packages) for item in kept)}]"
    if not isinstance(node, ast.AST):
        return ascii(node)
    if isinstance(node, ast.JoinedStr):  # Python 3.12 ends some formats with an empty text
        node = ast.JoinedStr([part for part in node.values if getattr(part, "value", None) != ""])
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        node = ast.Assign([node.target], node.value)
    said = []
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "type_comment", "type_params", "ctx") or value in (None, []):
            continue
        mine = names.get(value) if field == _name_in(node, modules) else None
        said.append(f"{field}={mine or _render_tree(value, names, modules, packages)}")
    return f"{type(node).__name__}({', '.join(said)})"


def _is_docstring(node: Any) -> bool:
    """Return whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
