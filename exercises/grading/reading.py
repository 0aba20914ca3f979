"""Read a notebook that was handed in: its set, and which of its cells belong to which question.

Python's parser can be kept busy for hours by a text of a few kilobytes, so the grader does not read
notebooks in its own process: a child of the sandbox worker does, under the limits of an answer, and reports
plain data. Like serialization.py this file imports nothing else of ours, so that the worker can load it
alone.
"""

import ast
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cached_property, lru_cache
from typing import Any

MAX_BYTES = 20_000_000  # of a file
MAX_CODE = 200_000  # characters of a code cell; five times as many in all code cells of a notebook
MAX_HEAD = 5_000  # characters of a cell of text in which a heading is looked for; pictures may follow
MAX_CELLS = 5_000
MAX_MARKS = 30  # combining characters in a row; Python takes quadratic time to put them into order
# A question's heading, the first line of its answer cell and the import of the checks, as they are written.
HEADING = re.compile(r"(?m)^#{1,3} +Exercise +\d+\.(\d+)\b")
MARKER = re.compile(r"(?m)^[ \t]*# Exercise \d+\.(\d+): your answer")
IMPORT = re.compile(r"linattn_exercises\.(\w+)")
ASKED = re.compile(r"(?m)^[ \t]*(?:\w+\.)*check\.(q\d+)[ \t]*\(")  # in a cell that is no Python
# Magics that run the statement on their line, and their options, such as `-l 5` and `-s cumulative`.
OPTIONS = r"(?:-(?:[DTs][ \t]*\S+|(?![DTs])[\w-]+(?:[ \t]+[\d.]+)?)[ \t]+)*"
TIMING = rf"%[ \t]*(?:time[ \t]+|(?:prun|memit)[ \t]+{OPTIONS})(?=\S)"
TIMED_CHECK = re.compile(rf"(?m)^([ \t]*){TIMING}")
CHECK = re.compile(r"q\d+")
CALLED = re.compile(r"(?<!def )(?<![\w.])(\w+)[ \t]*\(")

Names = Mapping[
    str, Mapping[str, str]
]  # for every set, from each name that an answer defines to its question
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
BRANCHES = (ast.If, ast.Try, ast.TryStar, ast.ExceptHandler, ast.Match, ast.match_case)
BLOCKS = (*BRANCHES, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, *COMPREHENSIONS)  # of names


class UnreadableNotebook(ValueError):
    """Say that a file is no notebook of ours; the message is for its author."""


def read_notebook(data: bytes, names: Names, default_set: str = "") -> dict[str, Any]:
    """Read the content of a notebook file.

    The set and the version stand in the notebook's metadata. A notebook without them is told by what it
    imports, then by ``default_set``, then by the names that it defines. A renamed file, and one that another
    program has saved without ids and metadata, can be read as well.

    Args:
        data: the content.
        names: for every set, from each name that an answer defines to its question.
        default_set: the set of a notebook that does not say which it is.

    Returns:
        ``{"set", "version", "cells", "others"}``; a cell is ``[source, the questions that it answers, the
        question that it stands under or "", the questions whose checks it calls]``; others are sets that are
        not graded, though a cell imports from them.

    Raises:
        UnreadableNotebook: with a message that says what the file is instead.
    """
    notebook = _load_notebook(data)
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
    code = [_read_source(cell) for cell in cells if _is_code(cell)]
    metadata = notebook.get("metadata")
    ours = metadata.get("linattn") if isinstance(metadata, dict) else None
    ours = ours if isinstance(ours, dict) else {}
    imported = [found[1] for source in code for found in IMPORT.finditer(source)]
    named = [name for name in (ours.get("set"), *imported) if isinstance(name, str) and name in names]
    set_name = next(iter(named), "") or default_set or _guess_set(code, names)
    if not set_name:
        raise UnreadableNotebook(
            "The notebook does not say which exercises it answers; start from the notebook of a set."
        )
    found = [list(cell) for cell in _assign_questions(cells, names[set_name])]
    others = sorted(set(named) - {set_name})
    return {"set": set_name, "version": str(ours.get("version", ""))[:12], "cells": found, "others": others}


def _load_notebook(data: bytes) -> dict[str, Any]:
    """Return a notebook as it was written; an UnreadableNotebook if it is none."""
    try:
        content = json.loads(data, parse_int=float)  # no number is read, and a whole one may be too long
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnreadableNotebook("The file is not a Jupyter notebook.") from error
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise UnreadableNotebook("The file is not a Jupyter notebook of format 4.")
    if len(content["cells"]) > MAX_CELLS:
        raise UnreadableNotebook(f"The notebook has more than {MAX_CELLS:,} cells.")
    sources = [_read_source(cell) for cell in content["cells"] if _is_code(cell)]
    if max(map(len, sources), default=0) > MAX_CODE or sum(map(len, sources)) > 5 * MAX_CODE:
        raise UnreadableNotebook(
            f"A code cell has more than {MAX_CODE:,} characters, or all together more than {5 * MAX_CODE:,}."
        )
    if any(map(_has_heaps_of_marks, sources)):
        raise UnreadableNotebook(f"A code cell has more than {MAX_MARKS} accents on one letter.")
    return content


def _is_code(cell: Any) -> bool:
    """Return whether this is a cell of code."""
    return isinstance(cell, dict) and cell.get("cell_type") == "code"


def _has_heaps_of_marks(source: str) -> bool:
    """Return whether many combining characters stand in a row, once all are taken apart."""
    if source.isascii():
        return False
    marks = 0
    for c in source:
        for part in unicodedata.normalize("NFKD", c):
            marks = marks + 1 if unicodedata.combining(part) else 0
            if marks > MAX_MARKS:
                return True
    return False


def _read_source(cell: dict[str, Any]) -> str:
    """Return the text of a cell, which may be stored as a list of lines."""
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    return re.sub("\r\n?", "\n", source) if isinstance(source, str) else ""


def _guess_set(code: list[str], names: Names) -> str:
    """Return the set most of whose answers the code defines; "" if there is none."""
    defined = {name for source in code for name in (*_list_defined(source), *_list_defined_inside(source))}
    count = {key: len(defined & set(own)) for key, own in names.items()}
    best = max(count, key=lambda key: count[key])
    return best if count[best] else ""


def _assign_questions(
    cells: Iterable[dict[str, Any]], names: Mapping[str, str]
) -> Iterator[tuple[str, list[str], str, list[str]]]:
    """Yield code cells with their questions: by the names they define, their marker, or where they stand.

    A stub that was left as it was is passed over if another cell defines its names; what stands beside it
    stays. What nothing defines is what its check was given. A name that is defined in a block alone is
    defined there. To a question that no cell belongs to by all this those belong that ask its check alone.
    """
    found = list(_assign_by_names(cells, names))
    taken = {question for _, answers, section, _ in found for question in (*answers, section)}
    for source, answers, section, asked in found:
        alone = not answers and len(asked) == 1 and asked[0] not in taken
        yield source, asked if alone else answers, section, asked


def _assign_by_names(
    cells: Iterable[dict[str, Any]], names: Mapping[str, str]
) -> Iterator[tuple[str, list[str], str, list[str]]]:
    """Yield code cells with their questions, but for those that only ask a check."""
    cells = list(cells)
    questions = set(names.values())
    code = [_read_source(cell) for cell in cells if _is_code(cell)]
    checks = _name_checks(code)
    helpers = Helpers(code, checks)
    split = [_split_after_checks(source, checks, helpers) for source in code]
    parts = [[source for source, _ in cell] for cell in split]
    filled = {name for source in code for name in _list_defined(source)}
    filled |= _define_what_is_given(parts, names, names.keys() - filled, checks)
    parts_of_cells = (
        zip(sources, [asked for _, asked in cell], strict=True)
        for sources, cell in zip(parts, split, strict=True)
    )
    section, above = "", set[str]()  # names that blocks have defined so far
    for cell in cells:
        if not _is_code(cell):
            if (found := HEADING.search(_read_source(cell), 0, MAX_HEAD)) and f"q{found[1]}" in questions:
                section = f"q{found[1]}"
            continue
        for source, asked in next(parts_of_cells):
            defined = _list_defined(source)
            inside = {name for name in _list_defined_inside(source) if name in names} - filled
            stubs = [name for name in _list_defined(source, stubs=True) if name in names]
            inner = [name for name in _list_defined_inside(source, stubs=True) if name in names]
            elsewhere = filled | (above - inside)
            left = {*inner} & elsewhere | ({*stubs} if elsewhere.issuperset(stubs) else set())
            source = _remove_definitions(source, left) if left else source
            above |= inside
            answers = {names[name] for name in (*defined, *inside, *stubs, *inner) if name in names}
            if (marked := MARKER.search(source)) and f"q{marked[1]}" in questions:
                answers.add(f"q{marked[1]}")
            section = min(answers) if len(answers) == 1 else section
            yield source, sorted(answers), section, sorted(asked & questions)


def _read_timed(source: str) -> tuple[str, ast.Module | None]:
    """Return a cell as Python with what %time and its like run, and its tree; None if it is no Python."""
    return _read_python(TIMED_CHECK.sub(r"\1", source))


def _name_checks(code: Iterable[str]) -> dict[str, str]:
    """Return under which names cells import a check, by name its question; "" for the module of checks."""
    found = {"check": ""}
    for _, tree in map(_read_timed, filter(IMPORT.search, code)):
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Import):
                names = {one.asname: "" for one in node.names if IMPORT.match(one.name) and one.asname}
            elif isinstance(node, ast.ImportFrom) and IMPORT.match(node.module or ""):
                kinds = {one.asname or one.name: one.name for one in node.names}
                names = {name: kind for name, kind in kinds.items() if CHECK.fullmatch(kind)}
                names |= {name: "" for name, kind in kinds.items() if kind == "check"}
            else:
                continue
            found |= names
    return found


class Helpers:
    """Know the functions in which the author of a notebook asks checks, as its cells are gone through.

    What stands in a function is asked where the function is called. One that no cell calls by its name is
    no helper: it may be called by another name, and counts as asking where it stands.

    Args:
        code: all cells of code.
        checks: under which names the checks are known, see ``_name_checks``.
    """

    def __init__(self, code: list[str], checks: Mapping[str, str]) -> None:
        self._code, self._checks = code, checks
        self._known: dict[str, Function] = {}  # by name the last one so far
        self._all: set[Function] = set()

    @cached_property
    def _called(self) -> set[str]:
        """Return the names that are called anywhere."""
        return {name for source in self._code for name in CALLED.findall(source)}

    def may_be_called(self, text: str) -> bool:
        """Return whether a helper is named in a text."""
        return any(name in text for name in self._known)

    def learn(self, statement: ast.stmt) -> None:
        """Note the functions that a statement defines, and the lambdas that it gives a name."""
        for node in ast.walk(statement):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._note(node.name, node)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                for target in node.targets:
                    self._note(target.id if isinstance(target, ast.Name) else "", node.value)

    def _note(self, name: str, function: Function) -> None:
        """Note a function, if it is called by its name."""
        if name in self._called:
            self._known[name] = function
            self._all.add(function)

    def find_asked(self, tree: ast.AST) -> set[str]:
        """Return the questions whose checks are called in a tree, wherever in a statement."""
        found, todo = {""}, [tree]
        entered: set[Function] = set()
        while todo:
            node = todo.pop()
            if isinstance(node, ast.Call):
                found.add(_name_asked(node.func, self._checks))
                helper = self._known.get(node.func.id) if isinstance(node.func, ast.Name) else None
                if helper is not None and helper not in entered:
                    entered.add(helper)
                    todo += helper.body if isinstance(helper.body, list) else [helper.body]
            if node in self._all:  # is defined here, with defaults and decorators that run at once
                todo += [node.args, *getattr(node, "decorator_list", [])]
            else:
                todo += ast.iter_child_nodes(node)
        return found - {""}


def _split_after_checks(
    source: str, checks: Mapping[str, str], helpers: Helpers
) -> list[tuple[str, set[str]]]:
    """Return a cell in parts, each with the questions whose checks it calls.

    Each ends with a statement that calls one, the last with the cell. What stands below a check in its cell
    came after it, as in a cell of its own.
    """
    text, tree = _read_timed(source)
    if tree is None:
        return [(source, set(ASKED.findall(source)))]
    if not _may_ask(text, checks) and not helpers.may_be_called(text):
        return [(source, set())]
    lines, parts, begin, asked = text.split("\n"), [], 0, set()
    defines = "def " in text or "lambda" in text
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if defines:
            helpers.learn(node)
        asked |= (found := helpers.find_asked(node))
        end = node.end_lineno or 0
        if found and after is not None and after.lineno > end:
            parts.append(("\n".join(lines[begin:end]), asked))
            begin, asked = end, set()
    return [*parts, ("\n".join(lines[begin:]) if parts else source, asked)]


def _may_ask(text: str, checks: Mapping[str, str]) -> bool:
    """Return whether a check is named in a text: to walk the tree of a large cell takes a second.

    Letters that are not ASCII may be written in ways that Python takes for one.
    """
    return not text.isascii() or any(name in text for name in checks)


def _define_what_is_given(
    parts: list[list[str]], names: Mapping[str, str], missing: Set[str], checks: Mapping[str, str]
) -> set[str]:
    """Let names that no cell defines be what their check was given last, as `check.q2("C", f)` gives it.

    Args:
        parts: those of each cell, see ``_split_after_checks``; they are changed.
        names: from each name that an answer defines to its question, in the order in which checks take them.
        missing: those that no cell defines.
        checks: under which names the checks are known, see ``_name_checks``.

    Returns:
        The names that are defined now.
    """
    defined: set[str] = set()
    for cell in reversed(parts if missing else []):
        for m, part in reversed(list(enumerate(cell))):
            for question, texts in reversed(list(_list_given(part, checks))):
                asked = [name for name, one in names.items() if one == question]
                told = {name for name, text in zip(asked, texts, strict=False) if text in ("None", name)}
                wanted = (missing & set(asked)) - told - defined
                if wanted and (len(texts) == len(asked) or any(text.startswith("*") for text in texts)):
                    targets = ", ".join(name if name in wanted else "_given" for name in asked)
                    cell[m] += f"\n{targets}, = ({', '.join(texts)},)"
                    defined |= wanted
    return defined


def _list_given(source: str, checks: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield for each call of a check in a cell, but in functions, its question, and what it is given."""
    text, tree = _read_timed(source)
    for call in _iterate_calls(tree) if tree and _may_ask(text, checks) else []:
        if asked := _name_asked(call.func, checks):
            yield asked, [ast.get_source_segment(text, one) or "None" for one in call.args]


def _iterate_calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in a tree in the order in which they stand, but for those where names are others."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Call):
            yield node
        todo += [one for one in reversed(list(ast.iter_child_nodes(node))) if not isinstance(one, SCOPES)]


def _name_asked(called: ast.expr, checks: Mapping[str, str]) -> str:
    """Return the question whose check is called, or "" if it is none."""
    if isinstance(called, ast.Attribute):
        return called.attr if _is_module(called.value, checks) else ""
    return checks.get(called.id, "") if isinstance(called, ast.Name) else ""


def _is_module(node: ast.expr, checks: Mapping[str, str]) -> bool:
    """Return whether this is the module of checks, by a name or by its full name (``....check``)."""
    if isinstance(node, ast.Attribute):
        return node.attr == "check"
    return isinstance(node, ast.Name) and checks.get(node.id) == ""


def _remove_definitions(source: str, names: Iterable[str]) -> str:
    """Return a cell without the stubs of these names; one in a block leaves "pass" in its place."""
    source, tree = _read_python(source)
    lines, names = source.split("\n"), set(names)
    inner = [one for one in _list_inside(tree) if isinstance(one, DEFINITIONS)] if tree else []
    spans: dict[int, tuple[int, list[str]]] = {}  # from the first line to the last, and what replaces them
    for body, left in ((tree.body if tree else [], ""), (inner, "pass")):
        for node in body:
            if names.intersection(_list_names([node], stubs=True)):
                first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
                indent = re.match(r"\s*", lines[first - 1])
                spans[first] = node.end_lineno or first, [indent[0] + left] if left and indent else []
    for first in sorted(spans, reverse=True):
        last, instead = spans[first]
        lines[first - 1 : last] = instead
    return "\n".join(lines)


def _list_defined(source: str, stubs: bool = False) -> list[str]:
    """Return the names that a cell defines at its left margin, or with ``stubs`` those it leaves unanswered.

    A stub is a function that ends in ``raise NotImplementedError`` and returns nothing, or the value None.
    """
    source, tree = _read_python(source)
    if tree is None:
        return [] if stubs else [a or b for a, b in re.findall(r"(?m)^(?:def (\w+)|(\w+) *=)", source)]
    return _list_names(tree.body, stubs)


def _list_defined_inside(source: str, stubs: bool = False) -> list[str]:
    """Return the names that blocks of a cell define, or with ``stubs`` the functions they leave unanswered.

    Who gives a name the value None in a block leaves open what it will be, and defines nothing.
    """
    tree = _read_python(source)[1]
    inside = _list_inside(tree) if tree else []
    return _list_names([one for one in inside if not stubs or isinstance(one, DEFINITIONS)], stubs)


def _list_inside(tree: ast.Module) -> list[ast.stmt]:
    """Return the statements in blocks of a cell, such as `if`, `try` and `with`; not in functions."""
    found: list[ast.stmt] = []
    pending: list[ast.AST] = [one for one in reversed(tree.body) if isinstance(one, BLOCKS)]
    while pending:
        node = pending.pop()
        inner = [part for part in ast.iter_child_nodes(node) if isinstance(part, (ast.stmt, *BLOCKS))]
        found += [part for part in inner if isinstance(part, ast.stmt)]
        pending += [part for part in reversed(inner) if isinstance(part, BLOCKS)]
    return found


def _list_names(body: Iterable[ast.stmt], stubs: bool) -> list[str]:
    """Return the names that statements define, or with ``stubs`` those they leave unanswered."""
    found: list[tuple[str, bool]] = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append((node.name, _is_stub(node)))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            empty = isinstance(node.value, ast.Constant) and node.value.value is None
            for target in targets:
                parts = [target] if isinstance(target, ast.Name) else ast.walk(target)  # which is slow
                found += [(one.id, empty) for one in parts if isinstance(one, ast.Name)]
        elif isinstance(node, ast.ImportFrom):
            found += [(alias.asname or alias.name, False) for alias in node.names]
    return [name for name, stub in found if stub is stubs]


def _is_stub(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Return whether a function ends in ``raise NotImplementedError``, and returns nothing before it.

    Who writes an answer above that line may have left it where it was.
    """
    last = node.body[-1]
    return (
        isinstance(last, ast.Raise)
        and isinstance(last.exc, ast.Name)
        and last.exc.id == "NotImplementedError"
        and not any(isinstance(one, ast.Return) for one in _walk_own(node.body))
    )


def _walk_own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield what stands in a body, but for what stands in functions and classes in it."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)


# --- what only a notebook understands -----------------------------------------------------------------------

# A magic of a whole cell, with what follows it on its line. The first run the cell as Python; the second do
# something else with it. Any other is taken to run it, if it is Python.
CELL_MAGIC = re.compile(r"\s*%%[ \t]*(\w*)[^\n]*(?:\n|$)")
RUNNING = re.compile("time|timeit|capture|prun|memit|debug|snakeviz|pyinstrument|scalene")
NOT_RUNNING = re.compile(
    "|bash|sh|shell|cmd|script|system|sx|powershell|pwsh|zsh|fish|html|javascript|js|node|typescript|latex|tex"
    "|markdown|md|svg|css|mermaid|dot|graphviz|writefile|file|appendfile|writetemplate|macro|skip|perl|ruby"
    "|python|python[23]|pypy|julia|r|octave|matlab|sql|bigquery|spark|configure|c|cpp|cu|cuda|cuda_group|rust"
    "|go|java|kotlin|scala|fortran|yaml|json|ai",
    re.IGNORECASE,
)
# Prompts of Python and of IPython: what the first line begins with, and what is taken from all lines.
PROMPTS = (
    (re.compile(r">>>(?: |$)"), re.compile(r"(?m)^(?:>>>|\.\.\.)(?: |$)")),
    (re.compile(r"In \[\d+\]: "), re.compile(r"(?m)^(?:In \[\d+\]: |[ \t]*\.{3,}: ?)")),
)
# How a statement such as %pip, !ls, ?f or /f 1 begins, and one such as t["a"], b = %time f() or (a, b) = !ls.
MAGIC = re.compile(r"[ \t]*(?=[%!?,;/])")
GROUP = r"""[\[(](?:"[^"]*"|'[^']*'|[^\])"'#])*[\])]"""
ASSIGNED = re.compile(rf"[\w.,:*)\] \t]*(?:{GROUP}[\w.,:*)\] \t]*)*=[ \t]*(?=%[ \t]*\w|!)")
RUN, TIME = re.compile(TIMING), re.compile(r"%[ \t]*time[ \t]+(?=\S)")  # run what follows
# What decides where a statement ends: comments, strings (those that do not end here go on), and brackets.
SPAN = re.compile(r"""#.*|'{3}|"{3}|'(?:\\.|[^'\\])*(?:'|\\?$)|"(?:\\.|[^"\\])*(?:"|\\?$)|[()\[\]{}]""")
ENDS = {quote: re.compile(rf"(?:\\.|[^\\])*?{quote}") for quote in ("'''", '"""')}
DEPTHS = {**dict.fromkeys("([{", 1), **dict.fromkeys(")]}", -1)}


def strip_magics(source: str) -> str:
    """Return the source as Python, without what only a notebook understands.

    As in IPython a cell may be indented as a whole or have prompts before its lines, and a magic (%pip, !ls,
    x = %timeit, f?) stands where a statement begins; within brackets "%" is an operator.
    """
    return _read_python(source)[0]


@lru_cache(maxsize=2)  # a cell is looked at several times, and to parse a large one takes half a second
def _read_python(source: str) -> tuple[str, ast.Module | None]:
    """Return the source as Python, see ``strip_magics``, and its tree; None if it is no Python even so."""
    source = _strip_prompts(source)
    if tree := _parse(source):
        return source, tree
    source = _strip_indentation(source)
    known = True
    while found := CELL_MAGIC.match(source):
        if NOT_RUNNING.fullmatch(found[1]):
            return "", _parse("")
        known = known and RUNNING.fullmatch(found[1]) is not None
        source = source[found.end() :]
    source = _replace_magics(source)
    tree = _parse(source)
    return (source, tree) if tree or known else ("", _parse(""))


def _parse(source: str) -> ast.Module | None:
    """Return the tree of a text, or None if it is no Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _strip_indentation(source: str) -> str:
    """Return the source without the white space before its first line, also on lines that begin with it."""
    found = re.match(r"(?:[ \t]*\r?\n)*([ \t]+)\S", source)
    return re.sub(rf"(?m)^{found[1]}", "", source) if found else source


def _strip_prompts(source: str) -> str:
    """Return the source without the prompts that it was copied with.

    "In [3]: x = 1" would be Python as well, an annotation.
    """
    for first, every in PROMPTS:
        if first.match(source.lstrip()):
            return every.sub("", _strip_indentation(source))
    return source


def _replace_magics(source: str) -> str:
    """Return the source with "pass" in the place of statements that only a notebook understands.

    What %time, %prun and %memit run stays if it leaves anything behind; only the first returns its value.
    """
    lines: list[str] = []
    depth, quote, continued, skipped = 0, "", False, False
    for line in source.split("\n"):
        goes_on = line.rstrip("\r").endswith("\\")
        begins = not (depth or quote or continued or skipped)
        after, quote_after, commented = _follow(line, depth, quote)
        asks = line.rstrip().endswith("?") and not (quote_after or commented)  # for help: f?, x = t[0]?
        alone = MAGIC.match(line) if begins else None
        magic = alone or (ASSIGNED.match(line) if begins else None)
        if magic and (timed := (RUN if alone else TIME).match(line, magic.end())) and not goes_on:
            run = line[: magic.end()] + line[timed.end() :]
            lines.append(run if _leaves_something(run) else _pass(line))
        elif skipped or magic or (begins and asks):
            lines += [] if skipped else [_pass(line)]
            skipped = goes_on
        else:
            lines.append(line)
            depth, quote, continued = after, quote_after, goes_on and not commented
    return "\n".join(lines)


def _pass(line: str) -> str:
    """Return "pass", indented as a line is."""
    return line[: len(line) - len(line.lstrip())] + "pass"


def _leaves_something(line: str) -> bool:
    """Return whether a line is a statement by itself, and no mere expression."""
    tree = _parse(line.strip())
    return tree is not None and any(not isinstance(statement, ast.Expr) for statement in tree.body)


def _follow(line: str, depth: int, quote: str) -> tuple[int, str, bool]:
    """Return the open brackets and the open quotes after a line, and whether it ends with a comment.

    Args:
        line: the line.
        depth: the number of open brackets before it.
        quote: the quotes of a text of several lines that is open before it, or "".
    """
    place = 0
    while True:
        found = ENDS[quote].match(line, place) if quote else SPAN.search(line, place)
        if found is None:
            return depth, quote, False
        place = found.end()
        if quote:
            quote = ""
        elif found[0].startswith("#"):
            return depth, "", True
        else:
            quote = found[0] if found[0] in ENDS else ""
            depth = max(0, depth + DEPTHS.get(found[0], 0))
