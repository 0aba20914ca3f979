"""Pages that follow from the code: what they hold, and that a stale one is noticed."""

import re
from pathlib import Path

import pytest

from linattn_book import results
from linattn_book.builders import disagreements, index, kernels, models, status
from linattn_book.builders.generated import run
from linattn_ref.mixers import MIXERS

ROOT = Path(__file__).parents[2]
PAGES = {
    "status": status.render_page,
    "models": models.render_page,
    "disagreements": disagreements.render_page,
    "kernels": kernels.render_page,
    "index": index.render_page,
}


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_the_generated_one(name: str) -> None:
    assert (ROOT / "book" / f"{name}.md").read_text("utf-8") == PAGES[name](ROOT)


def test_the_page_of_models_has_every_mixer_with_its_row_its_expressions_and_its_state() -> None:
    text = models.render_page(ROOT)
    for name, mixer in MIXERS.items():
        title, paper = models.name_model(name), models.find_paper(name)
        assert len(re.findall(rf"^### {title}$", text, re.MULTILINE)) == 1
        link, address = (
            re.escape(f"[{title}](#model-{name.replace('_', '-')})"),
            f"https://arxiv.org/abs/{paper}",
        )
        cells = rf"`{name}` \| \[{paper}\]\({address}\) \| .+ \| [\d,]+"
        assert re.search(rf"^\| {link} \| {cells} \|$", text, re.MULTILINE)
        if mixer.equation:
            section = text.partition(f"### {title}\n")[2].partition("\n### ")[0]
            assert re.search(rf"^\| {link} \| \$.+\$ \| \$.+\$ \| \$.+\$ \|$", text, re.MULTILINE)
            for part in ("gate", "write", "read"):
                assert f"\n{part:5} = {mixer.equation.text(part)}\n" in section


def test_every_mixer_names_its_paper() -> None:
    for name, mixer in MIXERS.items():
        first = (mixer.__doc__ or "").split("\n\n")[0]
        assert re.search(r"arXiv \d{4}\.\d{5}", first), name


def test_the_page_of_kernels_has_every_time_and_every_op_of_the_ladder() -> None:
    text = kernels.render_page(ROOT)
    for row in results.load("kernels"):
        shape = f"{kernels.name_decay(row['op'])}; {row['B']}, {row['T']:,}, {row['K']}"
        assert (
            f"| {shape} | {kernels.format_number(row['ms'])} | {kernels.format_number(row['fla_ms'])} |"
            in text
        )
    for op, form in {(row["op"], row["form"]) for row in results.load("kernels_ladder")}:
        assert f"| {str(op).replace('_', ' ')}, {form} |" in text


def test_the_figure_of_kernels_has_every_case_and_refuses_rows_that_are_not_as_it_says() -> None:
    rows = results.load("kernels")
    cases = [row for row in rows if row["mode"] in kernels.PANELS and row["fla_ms"]]
    picture = kernels.render_picture(rows)
    assert picture.count('class="ours"') == picture.count('class="other"') == len(cases)
    for label in re.findall(r'aria-label="([^"]*)"', picture):
        assert len(label) >= 40
    slow = [row | {"ms": 1e6} if row is cases[0] else row for row in rows]
    with pytest.raises(ValueError, match="FLA is ahead in a case of linear attention"):
        kernels.render_picture(slow)


def test_the_page_says_whether_the_kernels_have_changed_since_they_were_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = results.provenance("kernels")["source_hash"]
    monkeypatch.setattr(kernels, "code_hash", lambda *modules, **others: measured)
    assert "have changed since" not in kernels.describe_measurement("kernels", ROOT)
    monkeypatch.setattr(kernels, "code_hash", lambda *modules, **others: "0" * 64)
    assert kernels.describe_measurement("kernels", ROOT).endswith(
        "**The sources have changed since, to `000000000000`.**"
    )


def test_kernels_are_compared_by_geometric_means_of_what_was_timed() -> None:
    rows = [
        {"op": "chunk_linear_attention/H", "mode": "fwd", "ms": ms, "fla_ms": fla, "floor_ms": 0.5}
        for ms, fla in ((1.0, 4.0), (2.0, 2.0), (2.0, None), (None, 3.0))
    ]
    assert kernels.render_means(rows)[1] == [["H, fwd", "2", "2.00", "1.00", "3.17", "4.0"]]


def test_a_page_that_differs_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "_config.yml").write_text("title: a book\n")
    (tmp_path / "book").mkdir()
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> None:
        monkeypatch.setattr("sys.argv", ["name", *arguments])
        run(lambda root: "# Page\n\nA number: 177.\n", "page")

    with pytest.raises(SystemExit, match=r"book/page\.md is out of date"):
        command("--check")
    command()
    command("--check")
    file = tmp_path / "book" / "page.md"
    file.write_text(file.read_text().replace("177", "178"))
    with pytest.raises(SystemExit, match="out of date"):
        command("--check")
