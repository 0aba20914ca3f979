"""Find the library functions that the code of an answer uses, without running it."""

import ast
from collections.abc import Iterable, Sequence

MAX_CODE = 200_000  # characters of a cell


def find_used_names(sources: Sequence[str], asked: Iterable[str]) -> set[str]:
    """Return the library names that the asked functions use, directly or through what the code defines.

    Args:
        sources: Python source, a text for each cell. What does not parse is passed over.
        asked: the functions and values that the question asks for.

    Returns:
        Names of attributes (``softmax`` in ``x.softmax(-1)``) and names that the sources do not define.
    """
    defined = _collect_definitions(sources)
    found: set[str] = set()
    seen: set[str] = set()
    names = set(asked)
    while names:
        seen |= names
        inside = [one for name in names for node in defined.get(name, []) for one in ast.walk(node)]
        found |= {one.attr for one in inside if isinstance(one, ast.Attribute)}
        mentioned = {one.id for one in inside if isinstance(one, ast.Name)}
        found |= mentioned - set(defined)
        names = mentioned & set(defined) - seen
    return found


def _collect_definitions(sources: Sequence[str]) -> dict[str, list[ast.AST]]:
    """Return for each name that the sources define, at any depth, the code that it stands for."""
    defined: dict[str, list[ast.AST]] = {}
    for node in (node for source in sources for node in _parse_nodes(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.setdefault(node.name, []).extend(node.body)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                for one in ast.walk(target):
                    if isinstance(one, ast.Name):
                        defined.setdefault(one.id, []).append(node.value)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                defined.setdefault(alias.asname or alias.name, []).append(
                    ast.Attribute(ast.Name("module"), alias.name)
                )
    return defined


def _parse_nodes(source: str) -> list[ast.AST]:
    """Return all nodes of a source; none if it does not parse, or is too long to be an answer."""
    try:
        return list(ast.walk(ast.parse(source))) if len(source) <= MAX_CODE else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
