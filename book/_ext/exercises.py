"""From the master of each exercise set to everything a reader gets: ``python -m linattn_book.exercises``.

``exercises/chNN_slug/master.py`` is a Python file in cells, each opened by a line ``# %% ROLE``:

* ``# %% [markdown] intro``: title and introduction of the set;
* ``# %% setup``: imports, for the notebooks and the checks; ``# %% checks``: imports for the checks alone;
* ``# %% [markdown] q1 KIND, N points, N minutes, level N``: the question, with a heading ``## Title`` first;
* ``# %% given q1``: code that the question shows;
* ``# %% answer q1``: the right answer; the student's copy lacks all from ``# BEGIN SOLUTION`` to
  ``# END SOLUTION``;
* ``# %% [markdown] solution q1``: what there is to say about it;
* ``# %% checks q1``: how an answer is checked.

Written are ``check.py``, ``student.ipynb`` and ``solution.ipynb`` beside the master, and in the chapters
every cell whose metadata has ``"exercise": "chNN_slug/q1"`` (the question and its solution, folded) or
``"exercise": "chNN_slug"`` (the list). ``--check`` fails and names each file that differs.
"""

import argparse
import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from linattn_ref.files import write_atomically

from .execute import KERNELSPEC, LANGUAGE
from .notebooks import chapters, dump_notebook, find_root, read_notebook
from .repository import COLAB, address, setup_source

ROLES = ("intro", "setup", "checks", "given", "answer", "solution")
QUESTION = re.compile(r"(q\d+) (\w+), (\d+) points?, (\d+) minutes, level ([123])")
SOLUTION = re.compile(r"(?m)^([ ]*)# BEGIN SOLUTION\n(.*\n)*?\1# END SOLUTION(\n|\Z)")
EMPTY = re.compile(r"(?m)^(\w+) = None\n(?=# BEGIN SOLUTION\n\1 = )")
MARKERS = re.compile(r"(?m)^[ ]*# (?:BEGIN|END) SOLUTION\n?")


@dataclass(frozen=True)
class Cell:
    """A cell of a master: its role, the question it belongs to (or none), its text."""

    role: str
    question: str
    text: str


@dataclass(frozen=True)
class Question:
    """What stands above a question."""

    id: str
    kind: str
    points: int
    minutes: int
    level: int
    title: str

    def facts(self) -> str:
        """One line: kind, level, minutes, points."""
        points = f"{self.points} point{'s' * (self.points != 1)}"
        return f"{self.kind.capitalize()} · {stars(self.level)} · {self.minutes} minutes · {points}"


@dataclass(frozen=True)
class Master:
    """A master file, read."""

    name: str
    cells: list[Cell]
    questions: list[Question]
    version: str

    def text(self, role: str, question: str = "") -> str:
        """The text of the cells of a role, joined."""
        found = (cell.text for cell in self.cells if (cell.role, cell.question) == (role, question))
        return "\n\n".join(found)


def stars(level: int) -> str:
    return "★" * level + "☆" * (3 - level)


def masters(root: Path) -> list[Path]:
    """The master files, in order."""
    return sorted((root / "exercises").glob("ch*/master.py"))


def read_master(path: Path) -> Master:
    """Read a master; a cell with an unknown role or a question without a part is a ValueError."""
    text = path.read_text(encoding="utf-8")
    cells: list[Cell] = []
    questions: list[Question] = []
    for part in re.split(r"(?m)^# %% ?", text)[1:]:
        header, _, body = part.partition("\n")
        prose = header.startswith("[markdown] ")
        role, _, question = header.removeprefix("[markdown] ").partition(" ")
        if found := QUESTION.fullmatch(header.removeprefix("[markdown] ")):
            role, question = "question", found[1]
            title, body = _title(body)
            points, minutes, level = map(int, found.groups()[2:])
            questions.append(Question(question, found[2], points, minutes, level, title))
        elif role not in ROLES:
            raise ValueError(
                f"{path.parent.name}/master.py: got a cell `{header}`, expected a role of {ROLES}"
            )
        cells.append(Cell(role, question, _prose(body) if prose else body.strip()))
    version = hashlib.sha256(text.encode()).hexdigest()[:12]
    master = Master(path.parent.name, cells, questions, version)
    for one in questions:
        for role in ("question", "answer", "solution", "checks"):
            if not master.text(role, one.id):
                raise ValueError(f"{master.name}/master.py: {one.id} has no cell `{role}`, expected one")
    return master


def _title(body: str) -> tuple[str, str]:
    line, _, rest = body.lstrip().partition("\n")
    if not line.startswith("# ## "):
        raise ValueError(f"master.py: got a question that starts with {line!r}, expected `# ## Title`")
    return line.removeprefix("# ## ").strip(), rest


def _prose(body: str) -> str:
    """Markdown out of a block of comments; the lines of a paragraph become one line."""
    lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()]
    return unwrapped("\n".join(lines).strip())


def unwrapped(text: str) -> str:
    """Join the lines of each paragraph and list item; leave code, formulas, tables and headings alone."""
    joined: list[str] = []
    fence = False
    for line in text.splitlines():
        boundary = line.strip() in ("$$", "") or line.lstrip().startswith(
            ("```", "#", "|", "- ", "* ", ":::", ">")
        )
        boundary = boundary or re.match(r"\s*\d+\. ", line) is not None
        plain = (
            bool(joined)
            and joined[-1].strip() not in ("", "$$")
            and not joined[-1].lstrip().startswith(("```", "#", "|", ":::"))
        )
        if not fence and not boundary and plain:
            joined[-1] += " " + line.strip()
        else:
            joined.append(line)
        if line.lstrip().startswith("```") or line.strip() == "$$":
            fence = not fence
    return "\n".join(joined)


# --- what is generated --------------------------------------------------------------------------------------


def stub(answer: str) -> str:
    """An answer without its solution; a body that is cut out of a function raises NotImplementedError."""
    return SOLUTION.sub(lambda m: f"{m[1]}raise NotImplementedError\n" if m[1] else "", answer).rstrip()


def solved(answer: str) -> str:
    """An answer without the marks around its solution and the empty values that it fills."""
    return MARKERS.sub("", EMPTY.sub("", answer)).rstrip()


def asked(answer: str) -> list[str]:
    """The names that an answer must define: functions and values at the left margin of its stub."""
    return [a or b for a, b in re.findall(r"(?m)^(?:def (\w+)|(\w+) = )", stub(answer))]


def check_module(master: Master) -> str:
    """check.py: the right answers, and how the others are compared with them."""
    abouts = "".join(
        f'    "{q.id}": About(\n'
        f'        "{master.name}", "{q.id}", {q.title!r},\n'
        f'        "{q.kind}", points={q.points}, minutes={q.minutes}, level={q.level},\n    ),\n'
        for q in master.questions
    )
    parts = [
        f'"""Checks of ``{master.name}``, generated from master.py by ``make exercises``: edit that file."""',
        master.text("setup"),
        master.text("checks"),
        f'VERSION = "{master.version}"\nABOUT = {{\n{abouts}}}',
    ]
    for question in master.questions:
        parts.append(f"# --- {question.id}: {question.title} ---")
        given, answer = master.text("given", question.id), solved(master.text("answer", question.id))
        parts += [part for part in (given, answer, master.text("checks", question.id)) if part]
    parts.append(f"QUESTIONS = ({', '.join(q.id for q in master.questions)},)")
    return "\n\n\n".join(parts) + "\n"


def notebook(master: Master, url: str, solution: bool) -> NotebookNode:
    """The student's notebook, or the one with the solutions."""
    intro = master.text("intro")
    title, _, rest = intro.partition("\n")
    name = "solution" if solution else "student"
    top = f"{title}{': solutions' if solution else ''}\n\n[Open in Colab]({colab(master, url, name)})\n{rest}"
    cells = [
        new_markdown_cell(top, id="intro"),
        new_code_cell(setup_source(url), id="install"),
        new_code_cell(
            f"{master.text('setup')}\n\nfrom linattn_exercises.{master.name} import check", id="setup"
        ),
    ]
    for question in master.questions:
        cells += _question_cells(master, question, solution)
    metadata = {
        "kernelspec": KERNELSPEC,
        "language_info": LANGUAGE,
        "linattn": {"set": master.name, "version": master.version},
    }
    return new_notebook(cells=cells, metadata=metadata)


def _question_cells(master: Master, question: Question, solution: bool) -> list[NotebookNode]:
    id, number = question.id, question.id[1:]
    answer = master.text("answer", id)
    heading = (
        f"## Question {number}: {question.title}\n\n*{question.facts()}*\n\n{master.text('question', id)}"
    )
    cells = [new_markdown_cell(heading, id=f"{id}-text")]
    if given := master.text("given", id):
        cells.append(new_code_cell(given, id=f"{id}-given"))
    marked = f"# Question {number}: your answer\n" + (solved(answer) if solution else stub(answer))
    cells.append(new_code_cell(marked, id=f"{id}-answer"))
    cells.append(new_code_cell(f"check.{id}({', '.join(asked(answer))})", id=f"{id}-check"))
    if solution:
        cells.append(new_markdown_cell(master.text("solution", id), id=f"{id}-solution"))
    return cells


def colab(master: Master, url: str, name: str) -> str:
    """The address at which Colab opens a notebook of the set."""
    return f"{COLAB}{url.removeprefix('https://github.com/')}/blob/main/exercises/{master.name}/{name}.ipynb"


def label(master: Master, question: Question) -> str:
    return f"ex-{master.name.split('_')[0]}-{question.id}"


def number(master: Master, question: Question) -> str:
    """The number of a question in the book, such as 2.1."""
    return f"{int(master.name[2:4])}.{question.id[1:]}"


def exercise_cell(master: Master, question: Question) -> str:
    """A question as the book shows it, with its solution folded."""
    id = question.id
    answer = master.text("answer", id)
    given = f"\n```python\n{given}\n```\n" if (given := master.text("given", id)) else ""
    return (
        f":::{{exercise}} {number(master, question)} {question.title}\n"
        f":label: {label(master, question)}\n:class: dropdown\n:nonumber:\n\n"
        f"*{question.facts()}*\n\n{master.text('question', id)}\n{given}\n"
        f"```python\n{stub(answer)}\n```\n:::\n\n"
        f":::{{solution}} {label(master, question)}\n:class: dropdown\n\n"
        f"```python\n{solved(answer)}\n```\n\n{master.text('solution', id)}\n:::"
    )


def list_cell(master: Master, url: str) -> str:
    """The list of a set's questions, and where to solve them."""
    rows = "\n".join(
        f"| [{number(master, q)} {q.title}]({label(master, q)}) "
        f"| {q.kind} {stars(q.level)} | {q.minutes} | {q.points} |"
        for q in master.questions
    )
    total = sum(q.minutes for q in master.questions), sum(q.points for q in master.questions)
    return (
        "These stand in the text where they belong. Solve them in the notebook, which says at once whether "
        "an answer is right and, if it is not, where it goes wrong first.\n\n"
        f"[Open in Colab]({colab(master, url, 'student')}) "
        f"{{download}}`Download <../exercises/{master.name}/student.ipynb>`\n\n"
        "| exercise | kind, level | min. | points |\n| --- | --- | ---: | ---: |\n"
        f"{rows}\n| together | | {total[0]} | {total[1]} |"
    )


def generated(root: Path) -> dict[Path, str]:
    """Every file that follows from the masters, with the text it must have."""
    url = address(root)
    files: dict[Path, str] = {}
    cells: dict[str, str] = {}
    for path in masters(root):
        master = read_master(path)
        files[path.parent / "check.py"] = check_module(master)
        for name in ("student", "solution"):
            text = dump_notebook(notebook(master, url, solution=name == "solution"))
            files[path.parent / f"{name}.ipynb"] = text
        cells[master.name] = list_cell(master, url)
        cells |= {f"{master.name}/{q.id}": exercise_cell(master, q) for q in master.questions}
    for path in chapters(root):
        files[path] = dump_notebook(stamped(read_notebook(path), cells, path.name))
    return files


def stamped(chapter: NotebookNode, cells: dict[str, str], name: str) -> NotebookNode:
    """A chapter with its exercise cells filled in."""
    for cell in chapter.cells:
        if key := cell.metadata.get("exercise"):
            if key not in cells:
                raise ValueError(f"{name}: got a cell for exercise {key!r}, expected one of {sorted(cells)}")
            cell.source = cells[key]
    return chapter


def missing(root: Path) -> list[str]:
    """The exercises that no chapter shows, one line each."""
    every = [cell for path in chapters(root) for cell in read_notebook(path).cells]
    shown = {cell.metadata.get("exercise") for cell in every}
    found = [read_master(path) for path in masters(root)]
    wanted = [key for m in found for key in (m.name, *(f"{m.name}/{q.id}" for q in m.questions))]
    return [f"chapters: no cell shows exercise {key!r}, expected one" for key in wanted if key not in shown]


def write(root: Path) -> None:
    """Write what differs."""
    texts = generated(root).items()
    write_atomically(
        {path: text for path, text in texts if not path.is_file() or path.read_text("utf-8") != text}
    )


def check(root: Path) -> list[str]:
    """Every file that differs from what its master asks for, and every exercise not shown."""
    stale = [
        f"{path.relative_to(root).as_posix()}: differs from its master, run `make exercises`"
        for path, text in generated(root).items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    return stale + missing(root)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m linattn_book.exercises", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs")
    arguments = parser.parse_args()
    try:
        root = find_root()
        if not arguments.check:
            write(root)
        faults = check(root)
    except (FileNotFoundError, ValueError, nbformat.ValidationError) as error:
        sys.exit(str(error))
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
