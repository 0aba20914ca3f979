"""Write the status page: ``python -m linattn_book.builders.status``; ``--check`` compares it.

The page is a function of committed files (the chapters, book/run_times.json, constraints.txt), so the same
tree always gives the same page and a page that differs is out of date.
"""

import json
from pathlib import Path

from .generated import render_table, run
from .notebooks import (
    CHECKED,
    count_words,
    find_chapters,
    find_code_cells,
    find_title,
    join_prose,
    read_notebook,
    read_tags,
)

PACKAGES = (
    "torch",
    "numpy",
    "jaxtyping",
    "plotly",
    "ipywidgets",
    "jupyter-book",
    "Sphinx",
    "pytest",
    "hypothesis",
    "sympy",
    "nbval",
)
DEVICES = {"cpu": "CPU", "cuda": "GPU"}


def list_versions(constraints: str) -> dict[str, str]:
    """Return the pinned version of every main package."""
    pins = dict(line.split("==", 1) for line in constraints.split() if "==" in line)
    missing = [name for name in PACKAGES if name not in pins]
    if missing:
        raise ValueError(f"constraints.txt: pins no {', '.join(missing)}, expected NAME==VERSION for each")
    return {name: pins[name] for name in PACKAGES}


def render_chapter_row(path: Path, times: dict[str, dict]) -> list[str]:
    """Return a chapter: title, words (to the hundred), checked cells, size (to 10 kB), seconds by device."""
    notebook = read_notebook(path)
    checked = sum(CHECKED in read_tags(cell) for cell in find_code_cells(notebook))
    seconds = [f"{times[key]['seconds']:.0f} s" if key in times else "not measured" for key in DEVICES]
    return [
        f"[{find_title(notebook)}](../chapters/{path.name})",
        f"{round(count_words(join_prose(notebook)), -2):,}",
        str(checked),
        f"{max(10, round(path.stat().st_size / 1000, -1)):.0f} kB",
        *seconds,
    ]


def render_hardware_rows(times: dict[str, dict]) -> list[list[object]]:
    """Return the machines behind the running times, each with the number of chapters and the last date."""
    dates: dict[tuple, list[str]] = {}
    for row in (times[chapter][device] | {"class": device} for chapter in times for device in times[chapter]):
        device = row["cpu"] if row["class"] == "cpu" else f"{row['device']} with {row['cpu']}"
        dates.setdefault((device, row["cores"], row["python"], row["torch"]), []).append(row["date"])
    return [[*machine, len(found), max(found)] for machine, found in sorted(dates.items())]


def render_page(root: Path) -> str:
    """Return the whole status page."""
    paths = find_chapters(root)
    file = root / "book" / "run_times.json"
    every = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    times = {path.stem: every[path.stem] for path in paths if path.stem in every}
    pins = list_versions((root / "constraints.txt").read_text(encoding="utf-8"))
    header = ["Chapter", "Words", "Checked cells", "File", *DEVICES.values()]
    machines = render_hardware_rows(times)
    parts = [
        "# Status",
        "This page says what the book was built and tested with. It is generated from the chapters, the\n"
        "pinned packages and the measured running times. A checked cell is one whose printed result every\n"
        "test run computes again and compares with what the page shows.",
        "## Chapters",
        render_table(header, (render_chapter_row(path, times.get(path.stem, {})) for path in paths))
        if paths
        else "There are no chapters yet.",
        "A running time is that of the whole notebook on two threads, from the start of Python to the last\n"
        "cell. Words are rounded to the hundred; exercises are not counted.",
        "## Where the running times were measured",
        render_table(["Machine", "Cores", "Python", "torch", "Chapters", "Last measured"], machines)
        if machines
        else "No running time has been measured yet.",
        "## Versions",
        "These are the versions that the tests run with. The package itself accepts wide ranges, so that a\n"
        "hosted notebook can keep the torch it comes with.",
        render_table(["Package", "Version"], pins.items()),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    run(render_page, "status")
