"""The master of an exercise set: all that is written by hand about its questions, but for the mistakes.

``exercises/chNN_slug/master/`` has ``intro.py`` and a file for each question, ``q1.py`` and so on. They are
read one after the other, as Python in cells, each opened by a line ``# %% ROLE``. In ``intro.py``:

* ``# %% [markdown] intro``: title and introduction of the set;
* ``# %% setup``: imports, for the notebooks and the checks; ``# %% checks``: imports for the checks alone.

In ``q1.py``:

* ``# %% [markdown] q1 KIND, N points, N minutes, level N``: the question, with a heading ``## Title`` first;
* ``# %% given q1``: code that the question shows;
* ``# %% answer q1``: the right answer; the student's copy lacks all from ``# BEGIN SOLUTION`` to
  ``# END SOLUTION``;
* ``# %% [markdown] solution q1``: what there is to say about it;
* ``# %% checks q1``: how an answer is checked.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

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
    """A master, read."""

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


def read_masters(root: Path) -> list[Master]:
    """The masters of all sets, in order."""
    return [read_master(folder) for folder in sorted((root / "exercises").glob("ch*/master"))]


def read_master(folder: Path) -> Master:
    """Read a master; a cell with an unknown role or a question without a part is a ValueError."""
    name, texts = folder.parent.name, [path.read_text(encoding="utf-8") for path in _files(folder)]
    cells: list[Cell] = []
    questions: list[Question] = []
    for part in (part for text in texts for part in re.split(r"(?m)^# %% ?", text)[1:]):
        header, _, body = part.partition("\n")
        prose = header.startswith("[markdown] ")
        role, _, question = header.removeprefix("[markdown] ").partition(" ")
        if found := QUESTION.fullmatch(header.removeprefix("[markdown] ")):
            role, question = "question", found[1]
            title, body = _title(body)
            points, minutes, level = map(int, found.groups()[2:])
            questions.append(Question(question, found[2], points, minutes, level, title))
        elif role not in ROLES:
            raise ValueError(f"{name}/master: got a cell `{header}`, expected a role of {ROLES}")
        cells.append(Cell(role, question, _prose(body) if prose else body.strip()))
    version = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
    master = Master(name, cells, questions, version)
    for one in questions:
        for role in ("question", "answer", "solution", "checks"):
            if not master.text(role, one.id):
                raise ValueError(f"{name}/master: {one.id} has no cell `{role}`, expected one")
    return master


def _files(folder: Path) -> list[Path]:
    """The introduction, then the questions by number."""
    return [folder / "intro.py", *sorted(folder.glob("q*.py"), key=lambda path: int(path.stem[1:]))]


def _title(body: str) -> tuple[str, str]:
    line, _, rest = body.lstrip().partition("\n")
    if not line.startswith("# ## "):
        raise ValueError(f"master: got a question that starts with {line!r}, expected `# ## Title`")
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


# --- answers ------------------------------------------------------------------------------------------------


def stub(answer: str) -> str:
    """An answer without its solution; a body that is cut out of a function raises NotImplementedError."""
    return SOLUTION.sub(lambda m: f"{m[1]}raise NotImplementedError\n" if m[1] else "", answer).rstrip()


def solved(answer: str) -> str:
    """An answer without the marks around its solution and the empty values that it fills."""
    return MARKERS.sub("", EMPTY.sub("", answer)).rstrip()


def asked(answer: str) -> list[str]:
    """The names that an answer must define: functions and values at the left margin of its stub."""
    return [a or b for a, b in re.findall(r"(?m)^(?:def (\w+)|(\w+) = )", stub(answer))]
