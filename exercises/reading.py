"""Read the code of an answer without running it."""

import ast
from collections.abc import Iterable, Sequence

MAX_CODE = 200_000  # characters of a cell


def names_used(sources: Sequence[str], asked: Iterable[str]) -> set[str]:
    """Library names that the asked functions use, themselves or through what the same code defines."""
    defined: dict[str, list[ast.AST]] = {}
    for node in (node for source in sources for node in _nodes(source)):
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


def _nodes(source: str) -> list[ast.AST]:
    """All nodes of a source; none if it does not parse, or is too long to be an answer."""
    try:
        return list(ast.walk(ast.parse(source))) if len(source) <= MAX_CODE else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
