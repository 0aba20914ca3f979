"""Stamp the address of the repository, which stands once, in _config.yml, into pages and notebooks.

``python -m linattn_book.builders.repository --set URL`` writes it there and into everything that repeats it:
the Colab link and the setup cell of every chapter, the README, the citation file, the pages of the book.
Without a URL it stamps the address as it is, for a chapter that is new.
``--check`` fails and names each file that differs.
"""

import argparse
import re
import sys
from pathlib import Path

import yaml
from nbformat import NotebookNode

from linattn_ref.training.files import write_atomically

from .notebooks import dump_notebook, find_chapters, find_code_cells, find_root, read_notebook, read_tags

COLAB = "https://colab.research.google.com/github/"
_NAME = r"[\w.-]+/[\w.-]*\w"
_URL_LINE = re.compile(r"(?m)(^repository:[^\n]*\n(?:[ \t#][^\n]*\n|\n)*?[ \t]+url:[ \t]*)([^\s#]+)")


def read_address(root: Path) -> str:
    """Return the repository address of _config.yml."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8")) or {}
    url = (config.get("repository") or {}).get("url")
    if not isinstance(url, str):
        raise ValueError(f"_config.yml: repository.url is {url!r}, expected an address")
    return validate_address(url)


def validate_address(url: str) -> str:
    """Return the address if Colab and pip can both open it; a ValueError if not."""
    if not re.fullmatch(rf"https://github\.com/{_NAME}", url) or url.endswith(".git"):
        raise ValueError(f"url: {url!r}, expected https://github.com/OWNER/NAME, no slash or .git after it")
    return url


def render_setup_cell(url: str) -> str:
    """Return the first code cell of every chapter."""
    return (
        "import importlib.util\n\n"
        'if importlib.util.find_spec("linattn_ref") is None:  # e.g. on Colab\n'
        f'    %pip install -q "linattn-ref @ git+{url}"'
    )


def make_colab_link(url: str, name: str) -> str:
    """Return the address at which Colab opens a chapter."""
    return f"{COLAB}{url.removeprefix('https://github.com/')}/blob/main/chapters/{name}"


def find_notebook_faults(notebook: NotebookNode, name: str, url: str) -> list[str]:
    """Return how the Colab link and the setup cell of a chapter differ from what the address asks for."""
    faults = []
    first = notebook.cells[0] if notebook.cells else None
    if (
        first is None
        or first.cell_type != "markdown"
        or f"]({make_colab_link(url, name)})" not in first.source
    ):
        faults.append(f"{name}: the first cell has no Colab link to {make_colab_link(url, name)}")
    elif re.search(r"!\[[^]]*\]\(", first.source):
        faults.append(f"{name}: the first cell holds an image, expected a plain text link to Colab")
    code = find_code_cells(notebook)
    if not code or "setup" not in read_tags(code[0]) or code[0].source != render_setup_cell(url):
        faults.append(f"{name}: the first code cell is not the setup cell (tagged `setup`) for {url}")
    return faults


def stamp_notebook(notebook: NotebookNode, name: str, url: str) -> None:
    """Give a notebook, in place, the Colab link and the setup cell of the address."""
    link = re.compile(re.escape(COLAB) + _NAME + r"/blob/main/chapters/[^\s)]+")
    for cell in notebook.cells[:1]:
        cell.source = link.sub(make_colab_link(url, name), cell.source)
    for cell in find_code_cells(notebook)[:1]:
        if "setup" in read_tags(cell):
            cell.source = render_setup_cell(url)


def find_text_files(root: Path) -> list[Path]:
    """Return the files of prose that repeat the address."""
    named = [root / name for name in ("README.md", "CITATION.cff", "CONTRIBUTING.md")]
    return [path for path in named if path.is_file()] + sorted((root / "book").glob("*.md"))


def stamp_text(text: str, old: str, new: str) -> str:
    """Return a text with the new address in place of the old one, in Colab links too."""
    for prefix in ("https://github.com/", COLAB):
        before, after = (prefix + url.removeprefix("https://github.com/") for url in (old, new))
        text = re.sub(re.escape(before) + r"(?![\w-]|\.(?!git\b)\w)", after, text)
    return text


def find_text_faults(text: str, name: str, url: str) -> list[str]:
    """Return links of a text that can only mean this repository and lead elsewhere."""
    owner_and_name = url.removeprefix("https://github.com/")
    colab = re.escape(COLAB) + rf"({_NAME})/blob/\S*chapters/"
    patterns = (colab, rf"linattn-ref(?:\[[\w,]+\])? @ git\+https://github\.com/({_NAME})")
    found = {match for pattern in patterns for match in re.findall(pattern, text)}
    strangers = sorted(found - {owner_and_name})
    faults = [f"{name}: links to {other}, expected {owner_and_name}" for other in strangers]
    if name in {"README.md", "CITATION.cff"} and url not in text:
        faults.append(f"{name}: does not hold the address {url}")
    return faults


def check(root: Path) -> list[str]:
    """Return every place that disagrees with _config.yml, one line each."""
    url = read_address(root)
    faults = []
    for path in find_chapters(root):
        faults += find_notebook_faults(read_notebook(path), path.name, url)
    for path in find_text_files(root):
        faults += find_text_faults(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix(), url)
    return faults


def stamp(root: Path, url: str) -> None:
    """Make `url` the address: in everything that repeats it, and last in _config.yml."""
    old, new = read_address(root), validate_address(url)
    stamped: dict[Path, str] = {}
    for path in find_chapters(root):
        notebook = read_notebook(path)
        stamp_notebook(notebook, path.name, new)
        stamped[path] = dump_notebook(notebook)
    for path in find_text_files(root):
        stamped[path] = stamp_text(path.read_text(encoding="utf-8"), old, new)
    config = root / "_config.yml"
    text, count = _URL_LINE.subn(lambda found: found[1] + new, config.read_text(encoding="utf-8"), count=1)
    if count != 1:
        raise ValueError("_config.yml: no line `url:` below `repository:`, expected one")
    write_atomically(stamped | {config: text})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m linattn_book.builders.repository", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--set", nargs="?", const="", metavar="URL", help="https://github.com/OWNER/NAME")
    action.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    try:
        root = find_root()
        if arguments.set is not None:
            stamp(root, arguments.set or read_address(root))
        faults = check(root)
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
