"""Write all that a reader gets from the masters of exercises: ``python -m linattn_book.builders.exercises``.

Beside each master it writes ``check.py``, ``chNN_slug_exercises.ipynb``, ``chNN_slug_solutions.ipynb`` and
the two ``__init__.py`` that make packages of the set and of its ``mistakes``. In the chapter of the set's
number it writes every cell whose metadata has ``"exercise": "chNN_slug/q1"`` (the question and its solution,
folded) or ``"exercise": "chNN_slug"`` (the list). A cell that is not there yet is inserted below the heading
``## Exercises``; move it to where it belongs. ``--check`` writes nothing, and fails with the name of each
file that differs."""

import argparse
import re
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from linattn_exercises.questions import QuestionInfo
from linattn_ref.training.files import write_atomically

from .execute import KERNELSPEC, LANGUAGE
from .masters import (
    Master,
    cut_solution,
    draw_stars,
    format_facts,
    keep_solution,
    list_asked_names,
    read_masters,
)
from .metadata import find_site
from .notebooks import dump_notebook, find_chapters, find_root, read_notebook
from .repository import COLAB, read_address, render_setup_cell

# --- beside the master --------------------------------------------------------------------------------------


def render_check(master: Master) -> str:
    """Return check.py: the right answers, and how others are compared with them."""
    infos = "".join(
        f'    "{q.id}": QuestionInfo(\n'
        f'        "{master.name}", "{q.id}", {q.title!r},\n'
        f'        "{q.kind}", points={q.points}, minutes={q.minutes}, level={q.level},\n    ),\n'
        for q in master.questions
    )
    parts = [
        f'"""Checks of ``{master.name}``, generated from master/*.py by ``make exercises``: edit those."""',
        master.get_text("setup"),
        master.get_text("checks"),
        f'VERSION = "{master.version}"\nINFO = {{\n{infos}}}',
    ]
    for question in master.questions:
        parts.append(f"# --- {question.id}: {question.title} ---")
        given = master.get_text("given", question.id)
        answer = keep_solution(master.get_text("answer", question.id))
        parts += [part for part in (given, answer, master.get_text("checks", question.id)) if part]
    parts.append(f"QUESTIONS = ({', '.join(q.id for q in master.questions)},)")
    return "\n\n\n".join(parts) + "\n"


def render_packages(master: Master) -> dict[str, str]:
    """Return the two files that make packages of a set and of its mistakes, by their paths in the set."""
    title = master.get_text("intro").partition("\n")[0].removeprefix("# ")
    return {
        "__init__.py": f'"""{title}."""\n',
        "mistakes/__init__.py": f'"""Known answers to ``{master.name}``, a file for each question."""\n',
    }


def name_notebook(master: Master, solution: bool = False) -> str:
    """Return the name of the student's notebook, or of the one with the solutions: no two sets share one."""
    return f"{master.name}_{'solutions' if solution else 'exercises'}.ipynb"


def build_notebook(master: Master, url: str, chapter: str, solution: bool) -> NotebookNode:
    """Return the student's notebook, or the one with the solutions; ``chapter`` is its page's address."""
    intro = master.get_text("intro")
    title, _, rest = intro.partition("\n")
    links = f"[Open in Colab]({link_to_colab(master, url, solution)})"
    if chapter:
        links += f" · [Read chapter {int(master.name[2:4])}]({chapter})"
    top = f"{title}{': solutions' if solution else ''}\n\n{links}\n{rest}"
    setup = f"{master.get_text('setup')}\n\nfrom linattn_exercises.{master.name} import check"
    cells = [
        new_markdown_cell(top, id="intro"),
        new_code_cell(render_setup_cell(url), id="install"),
        new_code_cell(setup, id="setup"),
    ]
    for question in master.questions:
        cells += _build_question_cells(master, question, solution)
    metadata = {
        "kernelspec": KERNELSPEC,
        "language_info": LANGUAGE,
        "linattn": {"set": master.name, "version": master.version},
    }
    return new_notebook(cells=cells, metadata=metadata)


def _build_question_cells(master: Master, info: QuestionInfo, solution: bool) -> list[NotebookNode]:
    """Return the cells of a question in the student's notebook, or in the one with the solutions."""
    id = info.id
    answer = master.get_text("answer", id)
    question = master.get_text("question", id)
    heading = f"## Exercise {info.number}: {info.title}\n\n*{format_facts(info)}*\n\n{question}"
    cells = [new_markdown_cell(heading, id=f"{id}-text")]
    if given := master.get_text("given", id):
        cells.append(new_code_cell(given, id=f"{id}-given"))
    shown = keep_solution(answer) if solution else cut_solution(answer)
    cells.append(new_code_cell(f"# Exercise {info.number}: your answer\n{shown}", id=f"{id}-answer"))
    cells.append(new_code_cell(f"check.{id}({', '.join(list_asked_names(answer))})", id=f"{id}-check"))
    if solution:
        cells.append(new_markdown_cell(master.get_text("solution", id), id=f"{id}-solution"))
    return cells


def link_to_colab(master: Master, url: str, solution: bool = False) -> str:
    """Return the address at which Colab opens a notebook of the set."""
    file = f"exercises/{master.name}/{name_notebook(master, solution)}"
    return f"{COLAB}{url.removeprefix('https://github.com/')}/blob/main/{file}"


# --- in the chapter -----------------------------------------------------------------------------------------


def make_label(info: QuestionInfo) -> str:
    """Return the label of a question, to which other pages can link."""
    return f"ex-{info.set_name.split('_')[0]}-{info.id}"


def render_exercise(master: Master, info: QuestionInfo) -> str:
    """Return a question as the book shows it, with its solution folded."""
    answer = master.get_text("answer", info.id)
    given = f"\n```python\n{given}\n```\n" if (given := master.get_text("given", info.id)) else ""
    return (
        f":::{{exercise}} {info.number} {info.title}\n"
        f":label: {make_label(info)}\n:class: dropdown\n:nonumber:\n\n"
        f"*{format_facts(info)}*\n\n{master.get_text('question', info.id)}\n{given}\n"
        f"```python\n{cut_solution(answer)}\n```\n:::\n\n"
        f":::{{solution}} {make_label(info)}\n:class: dropdown\n\n"
        f"```python\n{keep_solution(answer)}\n```\n\n{master.get_text('solution', info.id)}\n:::"
    )


def render_list(master: Master, url: str) -> str:
    """Return the list of a set's questions, and where to solve them."""
    rows = "\n".join(
        f"| [{info.number} {info.title}]({make_label(info)}) "
        f"| {info.kind} {draw_stars(info.level)} | {info.minutes} | {info.points} |"
        for info in master.questions
    )
    total = sum(info.minutes for info in master.questions), sum(info.points for info in master.questions)
    return (
        "These stand in the text where they belong. Solve them in the notebook, which says at once whether "
        "an answer is right and, if it is not, where it goes wrong first.\n\n"
        f"[Open in Colab]({link_to_colab(master, url)}) "
        f"{{download}}`Download <../exercises/{master.name}/{name_notebook(master)}>`\n\n"
        "| exercise | kind, level | min. | points |\n| --- | --- | ---: | ---: |\n"
        f"{rows}\n| together | | {total[0]} | {total[1]} |"
    )


def render_cells(master: Master, url: str) -> dict[str, str]:
    """Return the text of every cell that a chapter shows of a set, by the cell's key."""
    questions = {f"{master.name}/{info.id}": render_exercise(master, info) for info in master.questions}
    return questions | {master.name: render_list(master, url)}


def fill_cells(chapter: NotebookNode, cells: dict[str, str], name: str) -> NotebookNode:
    """Return a chapter with its exercise cells filled in, and those inserted that were not there.

    Args:
        chapter: the notebook; it is changed in place.
        cells: the text of each cell by its key, the list last, as ``render_cells`` returns it.
        name: the name of the file, for messages.

    Raises:
        ValueError: for a cell of another key, and for a chapter with neither the list nor its heading.
    """
    keys = [cell.metadata.get("exercise") for cell in chapter.cells]
    if new := [key for key in cells if key not in keys]:
        place = keys.index(new[-1].partition("/")[0]) if "/" in new[-1] else _find_heading(chapter, name) + 1
        chapter.cells[place:place] = map(_make_cell, new)
    for cell in chapter.cells:
        if key := cell.metadata.get("exercise"):
            if key not in cells:
                raise ValueError(f"{name}: got a cell for exercise {key!r}, expected one of {sorted(cells)}")
            cell.source = cells[key]
    return chapter


def _find_heading(chapter: NotebookNode, name: str) -> int:
    """Return the place of the cell with the heading ``## Exercises``."""
    for place, cell in enumerate(chapter.cells):
        if cell.cell_type == "markdown" and re.search(r"(?m)^## Exercises$", cell.source):
            return place
    raise ValueError(f"{name}: got no heading `## Exercises`, expected one, below which exercises are listed")


def _make_cell(key: str) -> NotebookNode:
    """Return an empty cell for an exercise."""
    id = f"exercise-{key.partition('/')[2] or 'list'}"
    return new_markdown_cell("", id=id, metadata={"exercise": key})


# --- everything ---------------------------------------------------------------------------------------------


def generate(root: Path) -> dict[Path, str]:
    """Return every file that follows from the masters, with the text it must have."""
    url = read_address(root)
    pages = {path.name[:2]: f"{find_site(root)}chapters/{path.stem}.html" for path in find_chapters(root)}
    files: dict[Path, str] = {}
    cells: dict[str, dict[str, str]] = {}  # by the number of the chapter
    for master in read_masters(root):
        folder = root / "exercises" / master.name
        files[folder / "check.py"] = render_check(master)
        files |= {folder / name: text for name, text in render_packages(master).items()}
        for solution in (False, True):
            notebook = build_notebook(master, url, pages.get(master.name[2:4], ""), solution)
            files[folder / name_notebook(master, solution)] = dump_notebook(notebook)
        cells[master.name[2:4]] = render_cells(master, url)
    for path in find_chapters(root):
        chapter = fill_cells(read_notebook(path), cells.get(path.name[:2], {}), path.name)
        files[path] = dump_notebook(chapter)
    return files


def find_without_chapter(root: Path) -> list[str]:
    """Return a line for each set that no chapter shows, since none has its number."""
    numbers = {path.name[:2] for path in find_chapters(root)}
    return [
        f"chapters: got no {master.name[2:4]}_*.ipynb, expected one that shows {master.name}"
        for master in read_masters(root)
        if master.name[2:4] not in numbers
    ]


def write(root: Path) -> None:
    """Write the files that differ from what their masters ask for."""
    texts = generate(root).items()
    write_atomically(
        {path: text for path, text in texts if not path.is_file() or path.read_text("utf-8") != text}
    )


def check(root: Path) -> list[str]:
    """Return a line for each file that differs from what its master asks for, and each set not shown."""
    stale = [
        f"{path.relative_to(root).as_posix()}: differs from its master, run `make exercises`"
        for path, text in generate(root).items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    return stale + find_without_chapter(root)


def main() -> None:
    """Run the command."""
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
