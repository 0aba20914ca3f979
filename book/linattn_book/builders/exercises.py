"""Write all that a reader gets from the masters of exercises: ``python -m linattn_book.builders.exercises``.

Written are ``check.py``, ``student.ipynb`` and ``solution.ipynb`` beside the master, and in the chapters
every cell whose metadata has ``"exercise": "chNN_slug/q1"`` (the question and its solution, folded) or
``"exercise": "chNN_slug"`` (the list). ``--check`` fails and names each file that differs.
"""

import argparse
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from linattn_ref.training.files import write_atomically

from .execute import KERNELSPEC, LANGUAGE
from .masters import Master, Question, asked, read_masters, solved, stars, stub
from .notebooks import chapters, dump_notebook, find_root, read_notebook
from .repository import COLAB, address, setup_source


def check_module(master: Master) -> str:
    """check.py: the right answers, and how the others are compared with them."""
    abouts = "".join(
        f'    "{q.id}": About(\n'
        f'        "{master.name}", "{q.id}", {q.title!r},\n'
        f'        "{q.kind}", points={q.points}, minutes={q.minutes}, level={q.level},\n    ),\n'
        for q in master.questions
    )
    parts = [
        f'"""Checks of ``{master.name}``, generated from master/*.py by ``make exercises``: edit those."""',
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
    for master in read_masters(root):
        folder = root / "exercises" / master.name
        files[folder / "check.py"] = check_module(master)
        for name in ("student", "solution"):
            text = dump_notebook(notebook(master, url, solution=name == "solution"))
            files[folder / f"{name}.ipynb"] = text
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
    wanted = [key for m in read_masters(root) for key in (m.name, *(f"{m.name}/{q.id}" for q in m.questions))]
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
    parser = argparse.ArgumentParser(prog="python -m linattn_book.builders.exercises", description=__doc__)
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
