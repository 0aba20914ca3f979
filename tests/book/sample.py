"""A small repository to try the book's tools on."""

from pathlib import Path

import nbformat

from linattn_book.builders.notebooks import dump_notebook
from linattn_book.builders.repository import make_colab_link, render_setup_cell

URL = "https://github.com/linear-attention-book/linear-attention-book"


def write_book(folder: Path) -> Path:
    """A repository with one chapter of two code cells, a README, a page and a configuration; the folder."""
    name = "01_state.ipynb"
    cells = [
        nbformat.v4.new_markdown_cell(
            f"# The state\n\n[Run in Colab]({make_colab_link(URL, name)})", id="title"
        ),
        nbformat.v4.new_code_cell(render_setup_cell(URL), id="setup", metadata={"tags": ["setup"]}),
        nbformat.v4.new_code_cell(
            "import os\n\nprint(os.environ['LINATTN_STATIC'])\nprint({'q', 'k', 'v'})",
            id="work",
            metadata={"tags": ["nbval-check-output"]},
        ),
    ]
    for part in ("chapters", "book"):
        (folder / part).mkdir()
    (folder / "chapters" / name).write_text(dump_notebook(nbformat.v4.new_notebook(cells=cells)))
    (folder / "_config.yml").write_text(
        "title: A book\n# url: not this one\nrepository:\n"
        f"  # the one place\n  url: {URL}  # stamped\n  branch: main\n"
    )
    (folder / "README.md").write_text(f"Clone {URL}.git or open [it]({URL}/issues), not {URL}-fork.\n")
    (folder / "book" / "index.md").write_text(f"[Colab]({make_colab_link(URL, name)})\n")
    return folder
