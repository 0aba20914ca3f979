"""Write what a teacher and a student read: marks.csv, marks.json, totals.csv, a page for each submission."""

import csv
import io
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from linattn_exercises.grading.grade import GradedSubmission, Mark
from linattn_exercises.grading.submissions import Origin, SubmissionFile
from linattn_exercises.sets import load_questions
from linattn_ref.training.files import write_atomically

FEEDBACK = "feedback"
SIGNATURES = "signatures.json"
PAGES = "pages.json"
NAMES = "names.json"
PAGE = re.compile(r"[\w-][\w.-]*\.html")  # what a page may be called
DEVICES = re.compile("con|prn|aux|nul|(com|lpt)[0-9¹²³]", re.IGNORECASE)  # no file on Windows is called that
RECORDS = (PAGES, NAMES)  # what later runs take from earlier ones
TABLES = ("marks.csv", "marks.json", "totals.csv", *RECORDS)

STYLE = """
:root { color-scheme: light dark; --ink: #1c2127; --faint: #59636e; --line: #d0d7de; --paper: #fff;
  --right: #14692b; --wrong: #a31621 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --faint: #a3adb8; --line: #3d444d;
  --paper: #14181d; --right: #58c977; --wrong: #ff8d8d } }
body { font: 1rem/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 44rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin: 0 0 .3rem }
section { border-top: 1px solid var(--line); padding: 1rem 0 }
.points { font-size: 1.2rem; font-weight: 600 }
.facts { color: var(--faint); margin: 0 } .message { white-space: pre-wrap; margin: .5rem 0 0 }
.right { color: var(--right); font-weight: 600 } .wrong { color: var(--wrong); font-weight: 600 }
"""


def write(
    out: Path,
    submissions: Sequence[GradedSubmission],
    sign: Callable[[Any], str],
    notice: str = "",
    files: Sequence[SubmissionFile] = (),
) -> None:
    """Write all tables and pages, or none.

    ``marks.csv`` and ``marks.json`` have a row for each question of each submission (the fields of ``Mark``),
    ``totals.csv`` one for each submission, and ``feedback/`` a page of HTML for each. What came from a
    submission is escaped: no cell is a formula for a spreadsheet, no page runs anything. ``names.json`` has
    the file of each name and ``pages.json`` its page, which stay in later runs, also with another seed;
    ``signatures.json`` has a signature of each table.

    Args:
        out: the folder, which exists.
        submissions: all submissions, in the order of the rows.
        sign: returns the signature of a text, see ``Grader.sign``.
        notice: a sentence that stands on every page.
        files: the files that keep their names.

    Raises:
        OSError: if a file cannot be written.
    """
    marks = [mark for graded in submissions for mark in graded.marks]
    rows = [mark._asdict() for mark in marks]
    header = ("submission", "chapter", "points", "max_points")
    pages = name_pages([graded.name for graded in submissions], _load_pages(out))
    names = {**load_names(out), **{file.name: file.origin for file in files}}
    feedback = {out / FEEDBACK / pages[graded.name]: render_page(graded, notice) for graded in submissions}
    texts = (
        _format_csv(Mark._fields, marks),
        json.dumps(rows, indent=1, ensure_ascii=False) + "\n",
        _format_csv(header, map(_sum_points, submissions)),
        json.dumps(pages, indent=1, ensure_ascii=False) + "\n",
        json.dumps(names, indent=1) + "\n",  # in ASCII: names of files need not be Unicode
    )
    written = dict(zip(TABLES, texts, strict=True))
    signatures = {name: sign([name, text]) for name, text in written.items()}
    write_atomically(
        {
            **{out / name: text for name, text in written.items()},
            **feedback,
            out / SIGNATURES: json.dumps(signatures, indent=1) + "\n",
        }
    )


def find_changed(out: Path, sign: Callable[[Any], str]) -> list[str]:
    """Return the names of tables that are not as they were written.

    Args:
        out: the folder of an earlier run, or of none.
        sign: returns the signature of a text, see ``Grader.sign``; that of another seed finds all changed.
    """
    signatures = _load(out / SIGNATURES)
    changed = []
    for name in (name for name in TABLES if (out / name).exists() or name in signatures):
        try:
            text = (out / name).read_text("utf-8")
        except (OSError, ValueError):
            text = ""
        if sign([name, text]) != signatures.get(name):
            changed.append(name)
    return changed


def _format_csv(header: Sequence[str], rows: Iterable[Sequence[str | int]]) -> str:
    """Return a table as comma-separated values."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(
        [_make_harmless(cell) if isinstance(cell, str) else cell for cell in row] for row in rows
    )
    return text.getvalue()


def _make_harmless(cell: str) -> str:
    """Return a text as one line that no spreadsheet takes for a formula, also where ";" separates cells."""
    return re.sub(r"(^|;)(?=[\s\"']*[=+\-@＝＋－＠])", r"\1'", " ".join(cell.split()))


def _sum_points(graded: GradedSubmission) -> tuple[str, str, int, int]:
    """Return the row of a submission in totals.csv."""
    chapter = graded.marks[0].chapter if graded.marks else ""
    points, most = (sum(getattr(mark, name) for mark in graded.marks) for name in ("points", "max_points"))
    return graded.name, chapter, points, most


def load_names(out: Path) -> dict[str, Origin]:
    """Return the names that earlier runs have given, each with its file.

    Args:
        out: the folder of marks. What is damaged in there is passed over.
    """
    found = _load(out / NAMES).items()
    return {
        name: Origin(*origin)
        for name, origin in found
        if name.isprintable()  # as every label is
        and isinstance(origin, list)
        and len(origin) == 2
        and all(isinstance(part, str) for part in origin)
    }


def _load_pages(out: Path) -> dict[str, str]:
    """Return the pages that earlier runs have given; passed over is what is damaged, or another has."""
    pages: dict[str, str] = {}
    owners: dict[str, str] = {}  # by what all names have in common that some file system takes for one
    for name, page in _load(out / PAGES).items():
        sound = name.isprintable() and isinstance(page, str) and PAGE.fullmatch(page)
        if sound and owners.setdefault(_fold(page), name) == name:
            pages[name] = page
    return pages


def _load(path: Path) -> dict[str, Any]:
    """Return the object in a file of JSON; an empty one if there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def name_pages(names: Sequence[str], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the page of each submission: a file name, readable, safe, no two alike on any file system.

    Args:
        names: those of the submissions.
        given: pages that earlier runs have given. Who has a page keeps it, and nobody else gets it.

    Returns:
        From names to pages, those that were given included.
    """
    pages = dict(given or {})
    taken = {_fold(page.removesuffix(".html")) for page in pages.values()}
    last: dict[str, int] = {}  # the number of the last page of a name
    safe_names = {name: _make_safe(name) for name in names if name not in pages}
    # Whose name is one of a page has that: "ada!" comes before "ada", and would be "ada" as well.
    for name in sorted(safe_names, key=lambda one: safe_names[one] != one.removesuffix(".ipynb")):
        safe = safe_names[name]
        candidate, number = safe, last.get(_fold(safe), 1)
        while _fold(candidate) in taken:
            number += 1
            candidate = f"{safe}_{number}"
        last[_fold(safe)] = number
        taken.add(_fold(candidate))
        pages[name] = f"{candidate}.html"
    return pages


def _make_safe(name: str) -> str:
    """Return a name that a file may have everywhere; file systems count bytes."""
    safe = re.sub(r"[^\w.-]+", "_", name.removesuffix(".ipynb"))
    safe = safe.encode()[:120].decode(errors="ignore").strip("._") or "submission"
    is_option = safe.startswith("-")  # for who types "rm *" among the pages
    return f"_{safe}" if is_option or DEVICES.fullmatch(safe.partition(".")[0].strip("_")) else safe


def _fold(name: str) -> str:
    """Return what all names have in common that some file system takes for one."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def render_page(graded: GradedSubmission, notice: str = "") -> str:
    """Return the feedback on one submission, a page of HTML. All that came from the submission is escaped."""
    points, most = (sum(getattr(mark, name) for mark in graded.marks) for name in ("points", "max_points"))
    note = "".join(f"<p>{escape(text)}</p>\n" for text in (graded.note, notice) if text)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Feedback: {escape(graded.name)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{escape(graded.name)}</h1>\n<p class="points">{points} of {most} points</p>\n{note}'
        f"{''.join(map(_render_section, graded.marks))}</main>\n</body>\n</html>\n"
    )


def _render_section(mark: Mark) -> str:
    """Return the part of the page on one question."""
    right = mark.points == mark.max_points > 0
    if mark.question:
        info = load_questions(mark.chapter)[mark.question].info
        title, facts = (
            f"Exercise {info.number}: {_strip_dollars(info.title)}",
            f"{info.kind}, {info.minutes} minutes",
        )
    else:
        title, facts = "Not graded", "no question found"
    return (
        f'<section>\n<h2>{escape(title)}</h2>\n<p class="facts">{escape(facts)}</p>\n'
        f'<p><span class="{"right" if right else "wrong"}">{"Right" if right else "Not right"}</span>: '
        f"{mark.points} of {mark.max_points} points</p>\n"
        f'<p class="message">{escape(mark.message)}</p>\n</section>\n'
    )


def _strip_dollars(title: str) -> str:
    """Return a title without the marks of formulas, which a page without MathJax would show."""
    return title.replace("$", "")
