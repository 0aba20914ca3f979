"""Find, read, write and count the chapters as files. The other tools of the book share this."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

CHECKED = "nbval-check-output"  # the tag of a cell whose output is compared
PLOTLY = "application/vnd.plotly.v1+json"

# What every notebook is run with: figures as data, no live widgets, and sets in one order.
KERNEL_ENV = {"PLOTLY_RENDERER": "plotly_mimetype", "LINATTN_STATIC": "1", "PYTHONHASHSEED": "0"}


def find_root(start: Path | None = None) -> Path:
    """Return the repository root: the nearest folder at or above `start` (default: here) with _config.yml."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "_config.yml").is_file():
            return folder
    raise FileNotFoundError(f"start: no _config.yml in {start} or above, expected the repository")


def find_chapters(root: Path) -> list[Path]:
    """Return the chapter notebooks of a repository, in reading order."""
    return sorted((root / "chapters").glob("*.ipynb"))


def read_notebook(path: Path) -> NotebookNode:
    """Read a notebook; a cell with no id, or a repeated one, gets one by its position."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    if raw.get("nbformat") != 4:
        raise ValueError(f"{path.name}: nbformat is {raw.get('nbformat')}, expected 4")
    seen: set[str] = set()
    for position, cell in enumerate(raw["cells"]):
        if not cell.get("id") or cell["id"] in seen:
            cell["id"] = f"cell-{position:03d}"
        seen.add(cell["id"])
    return nbformat.reads(json.dumps(raw | {"nbformat_minor": 5}), as_version=nbformat.NO_CONVERT)


def dump_notebook(notebook: NotebookNode) -> str:
    """Return the one text form in which notebooks are committed; raise a ValueError if it is not valid."""
    try:
        nbformat.validate(notebook, relax_add_props=True)
    except nbformat.ValidationError as error:
        raise ValueError(f"notebook: not valid nbformat 4.5: {error}") from error
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT).rstrip("\n") + "\n"


def find_code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the code cells, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def read_tags(cell: NotebookNode) -> list[str]:
    """Return the tags of a cell."""
    return cell.metadata.get("tags", [])


def list_code_lines(notebook: NotebookNode) -> list[str]:
    """Return the lines of code that are not blank, without the setup cell, which is the same everywhere."""
    cells = [cell for cell in find_code_cells(notebook) if "setup" not in read_tags(cell)]
    return [line for cell in cells for line in cell.source.splitlines() if line.strip()]


def join_markdown(notebook: NotebookNode) -> str:
    """Return all prose of a notebook as one text."""
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def join_prose(notebook: NotebookNode) -> str:
    """Return the text of a chapter itself, without the exercises that stand in it folded."""
    own = (cell for cell in notebook.cells if "exercise" not in cell.metadata)
    return "\n\n".join(cell.source for cell in own if cell.cell_type == "markdown")


def find_title(notebook: NotebookNode) -> str:
    """Return the first heading of a notebook."""
    found = re.search(r"^# +(.+?) *$", join_markdown(notebook), flags=re.MULTILINE)
    if found is None:
        raise ValueError("notebook: no markdown cell starts a line with '# ', expected a title")
    return found[1]


def count_words(text: str) -> int:
    """Count words of prose in MyST markdown; formulas, code, addresses, fences and options are none."""
    for pattern in (
        r"(?s)\$\$.*?\$\$",
        r"\$[^$\n]+\$",
        r"\{math\}`[^`]*`",
        r"`[^`\n]+`",
        r"\]\([^)]*\)",
        r"https?://\S+",
        r"^\s*(?:`{3,}|:{3,})\S*",
        r"^\s*:[\w-]+:.*$",
    ):
        text = re.sub(pattern, " ", text, flags=re.MULTILINE)
    return len(re.findall(r"[^\W\d_][\w'’-]*", text))


def list_output_texts(cell: NotebookNode) -> Iterator[str]:
    """Return all text that a reader sees below a code cell: streams, plain and HTML results, tracebacks."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output.text
        elif output.output_type == "error":
            yield "\n".join(output.traceback)
        else:
            yield from (value for kind, value in output.data.items() if kind.startswith("text/"))


def load_figures(notebook: NotebookNode) -> list[dict]:
    """Return the stored plotly figures, in order."""
    data = (output.get("data", {}) for cell in find_code_cells(notebook) for output in cell.outputs)
    return [bundle[PLOTLY] for bundle in data if PLOTLY in bundle]
