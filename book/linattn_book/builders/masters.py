"""Read the master of an exercise set: all that is written by hand about its questions, but for the mistakes.

``exercises/chNN_slug/master/`` has ``intro.py`` and a file for each question, ``q1.py`` and so on. They are
Python in cells, each opened by a line ``# %% ROLE``: the percent format, which editors and jupytext open as
notebooks. They are read one after the other. In ``intro.py``:

* ``# %% [markdown] intro``: title and introduction of the set;
* ``# %% setup``: imports, for the notebooks and the checks; ``# %% checks``: imports for the checks alone.

In ``q1.py``:

* ``# %% [markdown] q1 KIND, N points, N minutes, level N``: the question, with a heading ``## Title`` first;
* ``# %% given q1``: code that the question shows;
* ``# %% answer q1``: the right answer; the student's copy lacks all from ``# BEGIN SOLUTION`` to
  ``# END SOLUTION``;
* ``# %% [markdown] solution q1``: what there is to say about it;
* ``# %% checks q1``: how an answer is checked: a function ``q1(rng)`` that draws the calls, decorated by
  ``@define_question(INFO["q1"], ...)``, see ``linattn_exercises.questions``. All of these cells of a set, one
  after the other, become one module, its ``check.py``.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from linattn_exercises.questions import QuestionInfo

ROLES = ("intro", "setup", "checks", "given", "answer", "solution")
QUESTION = re.compile(r"(q\d+) (\w+), (\d+) points?, (\d+) minutes, level ([123])")
SOLUTION = re.compile(r"(?m)^([ ]*)# BEGIN SOLUTION\n(.*\n)*?\1# END SOLUTION(\n|\Z)")
EMPTY = re.compile(r"(?m)^(\w+) = None\n(?=# BEGIN SOLUTION\n\1 = )")
MARKERS = re.compile(r"(?m)^[ ]*# (?:BEGIN|END) SOLUTION\n?")


@dataclass(frozen=True)
class MasterCell:
    """Hold a cell of a master.

    Args:
        role: one of ``ROLES``, or "question".
        question: the id of the question that it belongs to, or "".
        text: code, or markdown with a line for each paragraph.
    """

    role: str
    question: str
    text: str


@dataclass(frozen=True)
class Master:
    """Hold a master that was read.

    Args:
        name: the name of its set's folder, such as "ch01_softmax".
        cells: all cells, in order.
        questions: what stands above each question.
        version: a hash of all its files; notebooks made from it carry it.
    """

    name: str
    cells: list[MasterCell]
    questions: list[QuestionInfo]
    version: str

    def get_text(self, role: str, question: str = "") -> str:
        """Return the text of the cells of a role, joined; "" if there is none."""
        found = (cell.text for cell in self.cells if (cell.role, cell.question) == (role, question))
        return "\n\n".join(found)


def format_facts(info: QuestionInfo) -> str:
    """Return one line on a question: kind, level, minutes, points."""
    points = f"{info.points} point{'s' * (info.points != 1)}"
    return f"{info.kind.capitalize()} · {draw_stars(info.level)} · {info.minutes} minutes · {points}"


def draw_stars(level: int) -> str:
    """Return a level of 1 to 3 as stars."""
    return "★" * level + "☆" * (3 - level)


def read_masters(root: Path) -> list[Master]:
    """Return the masters of all sets below the root of the repository, in order."""
    return [read_master(folder) for folder in sorted((root / "exercises").glob("ch*/master"))]


def read_master(folder: Path) -> Master:
    """Read a master.

    Args:
        folder: its ``master`` folder.

    Raises:
        ValueError: for a cell with an unknown role, and for a question that lacks a part.
    """
    name, texts = folder.parent.name, [path.read_text(encoding="utf-8") for path in _list_files(folder)]
    cells: list[MasterCell] = []
    questions: list[QuestionInfo] = []
    for part in (part for text in texts for part in re.split(r"(?m)^# %% ?", text)[1:]):
        header, _, body = part.partition("\n")
        prose = header.startswith("[markdown] ")
        role, _, question = header.removeprefix("[markdown] ").partition(" ")
        if found := QUESTION.fullmatch(header.removeprefix("[markdown] ")):
            role, question = "question", found[1]
            title, body = _split_title(body)
            points, minutes, level = map(int, found.groups()[2:])
            questions.append(QuestionInfo(name, question, title, found[2], points, minutes, level))
        elif role not in ROLES:
            raise ValueError(f"{name}/master: got a cell `{header}`, expected a role of {ROLES}")
        cells.append(MasterCell(role, question, _read_markdown(body) if prose else body.strip()))
    version = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
    master = Master(name, cells, questions, version)
    for one in questions:
        for role in ("question", "answer", "solution", "checks"):
            if not master.get_text(role, one.id):
                raise ValueError(f"{name}/master: {one.id} has no cell `{role}`, expected one")
    return master


def _list_files(folder: Path) -> list[Path]:
    """Return the introduction, then the questions by number."""
    return [folder / "intro.py", *sorted(folder.glob("q*.py"), key=lambda path: int(path.stem[1:]))]


def _split_title(body: str) -> tuple[str, str]:
    """Return the title of a question and what follows it."""
    line, _, rest = body.lstrip().partition("\n")
    if not line.startswith("# ## "):
        raise ValueError(f"master: got a question that starts with {line!r}, expected `# ## Title`")
    return line.removeprefix("# ## ").strip(), rest


def _read_markdown(body: str) -> str:
    """Return the markdown of a block of comments; the lines of a paragraph become one line."""
    lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()]
    return unwrap("\n".join(lines).strip())


def unwrap(text: str) -> str:
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


# --- answers ------------------------------------------------------------------------------------------------


def cut_solution(answer: str) -> str:
    """Return an answer without its solution; a function whose body is cut out raises NotImplementedError."""
    return SOLUTION.sub(lambda m: f"{m[1]}raise NotImplementedError\n" if m[1] else "", answer).rstrip()


def keep_solution(answer: str) -> str:
    """Return an answer without the marks around its solution and the empty values that it fills."""
    return MARKERS.sub("", EMPTY.sub("", answer)).rstrip()


def list_asked_names(answer: str) -> list[str]:
    """Return the names that an answer must define: functions and values at the left margin of its stub."""
    return [a or b for a, b in re.findall(r"(?m)^(?:def (\w+)|(\w+) = )", cut_solution(answer))]
