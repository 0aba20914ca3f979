"""Every page of the built book in a real browser: complete by itself, drawn, operable, legible."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import numpy as np
import pypdfium2
import pytest

from linattn_book.builders import weigh
from linattn_book.builders.metadata import find_site
from linattn_book.builders.synonyms import SYNONYMS
from tests.book.conftest import BUILT

if TYPE_CHECKING:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import Browser, Page

SITE = find_site(BUILT.parents[1])
pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

WCAG = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}, "preload": False}
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}

SETTLE = """async () => {
  for (const figure of document.querySelectorAll('.plotly-fig')) {
    figure.scrollIntoView();
    for (let i = 0; i < 200 && !figure.dataset.drawn; i++) await new Promise((r) => setTimeout(r, 50));
  }
  await window.MathJax?.startup?.promise;
  scrollTo(0, 0);
}"""
REDRAWN = """async (dark) => {
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  for (let i = 0; i < 4; i++) await new Promise((r) => setTimeout(r, 100));
}"""
WIDER_THAN_WINDOW = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
  [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
    .slice(0, 5).map((e) => `${e.tagName.toLowerCase()}.${e.className}`)"""
UNFOLD = """async () => {
  await window.MathJax?.startup?.promise;
  document.querySelectorAll('.bd-article details').forEach((e) => { e.open = true; });
  document.querySelectorAll('.toggle-hidden > .admonition-title .toggle-button').forEach((e) => e.click());
  await new Promise((r) => setTimeout(r, 500));
}"""
# What is wider than its box, and what is drawn at the box's edges before and after it is scrolled to its end.
EDGES = """async () => {
  const drawn = (e, side, part) => {
    const style = getComputedStyle(e, part);
    const seen = style.content !== 'none' && style.display !== 'none' && style.visibility === 'visible' &&
      style.position === 'absolute' && parseFloat(style.opacity) > 0.9 && parseFloat(style.width) >= 16 &&
      parseFloat(style.height) >= 12 && style.backgroundImage.includes('svg') &&
      parseFloat(style[`border-${side}-width`]) >= 1;
    return seen ? [side] : [];
  };
  const edges = (box) => {
    const frame = box.parentElement;
    const [a, b] = [box, frame].map((e) => e.getBoundingClientRect());
    if (Math.abs(a.right - b.right) > 1 || Math.abs(a.height - b.height) > 1) return ['elsewhere'];
    return [...drawn(frame, 'left', '::before'), ...drawn(frame, 'right', '::after')];
  };
  const cut = [...document.querySelectorAll('.bd-article *')].filter((e) =>
    e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible' &&
    !e.closest('svg, .plotly-plot, mjx-container *'));
  const settled = async (side) => {
    const done = () => cut.every((e) => edges(e).join() === side);
    for (let i = 0; i < 40 && !done(); i++) await new Promise((r) => setTimeout(r, 50));
  };
  await settled('right');
  const found = cut.map((e) => ({
    box: `${e.tagName.toLowerCase()}.${e.className}: ${e.textContent.trim().slice(0, 40)}`,
    name: e.getAttribute('aria-label') || '', focus: e.tabIndex, start: edges(e),
  }));
  cut.forEach((e) => { e.scrollLeft = e.scrollWidth; });
  await settled('left');
  return found.map((look, i) => ({ ...look, end: edges(cut[i]) }));
}"""
TEXT_WITHOUT_CODE = """() => {
  const main = document.querySelector('#main-content').cloneNode(true);
  main.querySelectorAll('pre, code, script, mjx-container, .plotly-plot').forEach((e) => e.remove());
  return main.textContent;
}"""
DRAWING = "(e) => e.querySelector('.plotly-plot .plot-container').innerHTML"
# The places that the search gives for a name before it looks into texts.
FIND_NAMES = """(queries) => Object.fromEntries(queries.map((query) => {
  const hits = Search._performSearch(...Search._parseQuery(query)).filter((hit) => hit[4] >= 100);
  return [query, hits.map((hit) => `${hit[0]}.html${hit[2]}`)];
}))"""
SEARCH = """async (query) => {
  document.querySelector('#search-results').replaceChildren();
  Search.performSearch(query);
  const all = () => [...document.querySelectorAll('#search-results li')];
  const ended = () => document.querySelector('.search-summary').innerText;
  const done = () => ended() && all().every((e) => e.querySelector('p'));
  for (let i = 0; i < 500 && !done(); i++) await new Promise((r) => setTimeout(r, 10));
  return all().map((e) => ({
    place: e.querySelector('a').getAttribute('href'),
    title: e.querySelector('a').textContent, said: e.querySelector('p')?.textContent || '',
  }));
}"""
SPELLINGS = {
    "flash attention": "chapters/01_softmax_attention.html#online-softmax",
    "FlashAttention": "chapters/01_softmax_attention.html#online-softmax",
    "kv-cache": "chapters/01_softmax_attention.html#the-kv-cache",
    "ROPE": "chapters/01_softmax_attention.html#positions-by-rotation",
    "kernel trick": "chapters/02_linear_attention.html#from-e-q-cdot-k-to-varphi-q-cdot-varphi-k",
    "fast weights": "chapters/02_linear_attention.html#a-recurrent-network-with-a-matrix-for-a-state",
    "gated linear attention": "chapters/03_decay_and_gates.html#scalar-vector-matrix",
    "delta net": "chapters/05_selection_and_erasing.html#erase-then-write",
    "selective scan": "chapters/05_selection_and_erasing.html#no-matrix-product-a-scan",
    "needles": "chapters/09_recall.html#needles",
    "positional encodings": "chapters/01_softmax_attention.html#positions-by-rotation",
}
UNTREATED = ("linformer", "hyena", "longformer", "mixture of experts")
LOOK = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  return {
    theme: document.documentElement.dataset.theme,
    figures: all('.plotly-fig').length,
    drawn: all('.plotly-fig').filter((e) => e.querySelector('.main-svg')).length,
    widest: Math.max(...all('.main-svg').map((e) => e.clientWidth)),
    ink: [...new Set(all('.xtick text').map((e) => getComputedStyle(e).fill))],
    unfolded: all('.solution:not(.toggle-hidden)').length,
  };
}"""


@dataclass
class Opened:
    """A page and everything that went wrong while it was open."""

    page: Page
    problems: list[str] = field(default_factory=list)


def open_page(browser: Browser, site: str, name: str, scheme: str, **options: object) -> Opened:
    page = browser.new_page(color_scheme=scheme, viewport=DESK, **options)  # type: ignore[arg-type]
    opened = Opened(page)
    note = opened.problems.append
    page.on("console", lambda m: note(f"console: {m.text}") if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: note(f"page error: {error}"))
    page.on("requestfailed", lambda r: note(f"failed: {r.url}"))
    page.on("response", lambda r: note(f"{r.status}: {r.url}") if r.status >= 400 else None)
    page.on(
        "request",
        lambda r: None if r.url.startswith((site, "data:", "blob:")) else note(f"third party: {r.url}"),
    )
    page.goto(site + name, wait_until="load")
    page.evaluate(SETTLE)
    return opened


@pytest.fixture(scope="session")
def axe() -> Axe:
    from axe_playwright_python.sync_playwright import Axe

    return Axe()


@pytest.fixture
def opened(browser: Browser, site: str, page_name: str) -> Iterator[Opened]:
    result = open_page(browser, site, page_name, "light")
    yield result
    result.page.close()


def violations(axe: Axe, page: Page) -> list[str]:
    found = axe.run(page, options={**WCAG, "resultTypes": ["violations"]}).response["violations"]
    return [
        f"{rule['id']}: {node['target']} {node['html'][:150]}" for rule in found for node in rule["nodes"]
    ]


def test_page(opened: Opened, axe: Axe) -> None:
    """One visit, all demands: what is drawn, what is announced, both themes, a phone's width."""
    page = opened.page
    assert opened.problems == []
    check_maths(page)
    check_figures(page)
    assert violations(axe, page) == [], "light theme"
    page.evaluate(REDRAWN, True)
    assert violations(axe, page) == [], "dark theme"
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.wait_for_timeout(600)
    assert page.evaluate(WIDER_THAN_WINDOW) == [], "wider than 390 px"
    assert violations(axe, page) == [], "dark theme, 390 px"
    assert opened.problems == []


@pytest.fixture(scope="module")
def phone(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport=PHONE, color_scheme="light")  # type: ignore[arg-type]
    yield page
    page.close()


def test_what_is_wider_than_a_phone_shows_an_edge(phone: Page, site: str, page_name: str) -> None:
    """Every box with something out of sight says so at that side, until its end is reached."""
    phone.goto(site + page_name, wait_until="load")
    phone.evaluate(UNFOLD)
    boxes = phone.evaluate(EDGES)
    assert [b for b in boxes if b["start"] != ["right"]] == [], "cut without an edge"
    assert [b for b in boxes if b["end"] != ["left"]] == [], "an edge at the end, or none at the start"
    assert [b for b in boxes if b["focus"] != 0 or "scrolls sideways" not in b["name"]] == [], "out of reach"
    if page_name.startswith("chapters/"):
        assert len(boxes) > 10, "code of a chapter is wider than a phone"


def test_no_edges_where_everything_fits_nor_in_print(browser: Browser, site: str) -> None:
    page = browser.new_page(viewport=PHONE)  # type: ignore[arg-type]
    try:
        page.goto(f"{site}chapters/01_softmax_attention.html", wait_until="load")
        page.wait_for_selector(".book-frame[data-more]", state="attached")
        edges = "() => [...document.querySelectorAll('.book-frame')].filter((e) => EDGE).length"
        drawn = edges.replace("EDGE", "getComputedStyle(e, '::after').content !== 'none'")
        assert page.evaluate(drawn) > 10
        page.emulate_media(media="print")
        assert page.evaluate(drawn) == 0
        page.emulate_media(media="screen")
        page.set_viewport_size({"width": 1900, "height": 900})
        equations = "[...document.querySelectorAll('mjx-container[display]')]"
        page.wait_for_function(f"{equations}.every((e) => !e.closest('.book-frame')?.dataset.more)")
        assert page.evaluate(f"{equations}.every((e) => !e.hasAttribute('tabindex'))")
    finally:
        page.close()


def check_maths(page: Page) -> None:
    formulas = page.locator(".math").count()
    assert page.locator("mjx-container").count() >= formulas
    assert page.locator("mjx-merror, [data-mml-node='merror']").count() == 0
    text = page.evaluate(TEXT_WITHOUT_CODE)
    raw = [sign for sign in ("$", "\\(", "\\[", "\\begin{", "\\frac", "\\mathbb") if sign in text]
    assert raw == [], "TeX that was not rendered"


def check_figures(page: Page) -> None:
    figures = page.locator(".plotly-fig").all()
    names = [figure.locator(".plotly-plot").get_attribute("aria-label") or "" for figure in figures]
    assert all(name.strip() for name in names)
    assert len(set(names)) == len(names), "two figures with one description"
    for figure, name in zip(figures, names, strict=True):
        assert figure.get_attribute("data-drawn") == "true", f"not drawn: {name}"
        size = figure.locator(".main-svg").first.bounding_box()
        assert size is not None
        assert size["width"] > 200, name
        assert size["height"] > 100, name
        if figure.locator("input[type=range]").count():
            check_slider(figure)
        if figure.locator("input[type=radio]").count():
            check_toggle(figure)
    labels = page.eval_on_selector_all(
        ".plotly-controls input[type=range]", "all => all.map((e) => e.labels[0].textContent)"
    )
    assert len(set(labels)) == len(labels), "two sliders of one name"


def check_slider(figure) -> None:  # type: ignore[no-untyped-def]
    """An arrow key moves to a frame beside this one: drawing, value shown and value announced change."""
    slider, output = figure.locator("input[type=range]"), figure.locator("output")
    before = figure.evaluate(DRAWING), output.text_content(), slider.get_attribute("aria-valuetext")
    step = int(figure.get_attribute("data-step"))
    key, there = (
        ("ArrowLeft", step - 1) if step == int(slider.get_attribute("max")) else ("ArrowRight", step + 1)
    )
    slider.focus()
    slider.press(key)
    figure.page.wait_for_function(
        "([e, n]) => e.dataset.step === n", arg=[figure.element_handle(), str(there)]
    )
    after = figure.evaluate(DRAWING), output.text_content(), slider.get_attribute("aria-valuetext")
    assert all(a != b for a, b in zip(before, after, strict=True))
    assert figure.evaluate("(e) => document.activeElement === e.querySelector('input')")


def check_toggle(figure) -> None:  # type: ignore[no-untyped-def]
    """The arrow key chooses the other of two steps, and the drawing changes."""
    step, before = figure.get_attribute("data-step"), figure.evaluate(DRAWING)
    chosen = figure.locator("input[type=radio]:checked")
    assert chosen.count() == 1
    chosen.press("ArrowRight")
    figure.page.wait_for_function("([e, n]) => e.dataset.step !== n", arg=[figure.element_handle(), step])
    assert figure.evaluate(DRAWING) != before


def test_a_chapter_has_the_number_of_its_file(page_names: list[str]) -> None:
    chapters = [name for name in page_names if name.startswith("chapters/")]
    assert chapters
    for name in chapters:
        found = re.findall(r'<h1><span class="section-number">(\d+)', (BUILT / name).read_text("utf-8"))
        assert [int(number) for number in found] == [int(Path(name).name[:2])], name


@pytest.fixture
def slider_page(browser: Browser, site: str, page_names: list[str]) -> Iterator[Page]:
    """The first page that has a figure with a slider."""
    page = browser.new_page(viewport=DESK, color_scheme="light")  # type: ignore[arg-type]
    for name in page_names:
        page.goto(site + name)
        if page.locator(".plotly-controls").count():
            break
    page.evaluate(SETTLE)
    yield page
    page.close()


def test_play_and_pause_from_the_keyboard(slider_page: Page) -> None:
    figure = slider_page.locator(".plotly-fig:has(.plotly-controls)").first
    button = figure.locator("button")
    button.focus()
    button.press("Enter")
    assert button.locator("[data-play]").text_content() == "Pause"
    slider_page.wait_for_function("(e) => Number(e.dataset.step) > 0", arg=figure.element_handle())
    button.press("Enter")
    assert button.locator("[data-play]").text_content() == "Play"
    slider_page.emulate_media(reduced_motion="reduce")
    button.wait_for(state="hidden")  # nothing moves by itself for a reader who asked for stillness
    assert figure.locator("input[type=range]").is_visible()


def test_figures_follow_the_theme_and_keep_the_step(slider_page: Page) -> None:
    figure = slider_page.locator(".plotly-fig:has(.plotly-controls)").first
    check_slider(figure)
    step = figure.get_attribute("data-step")
    ink = "(e) => getComputedStyle(e.querySelector('.xtick text, .ytick text')).fill"
    light = figure.evaluate(ink)
    slider_page.evaluate(REDRAWN, True)
    assert figure.evaluate(ink) != light
    assert figure.get_attribute("data-step") == step


def test_every_page_says_what_it_is(page_names: list[str]) -> None:
    said: dict[str, list[str]] = {"title": [], "description": []}
    for name in page_names:
        head = (BUILT / name).read_text("utf-8").partition("</head>")[0]
        if name == "404.html":
            assert 'content="noindex"' in head
            continue
        (title,) = re.findall(r"<title>(.*?)</title>", head)
        assert title.count("The Linear Attention Book") == 1
        said["title"].append(title)
        (canonical,) = re.findall(r'<link rel="canonical" href="([^"]*)"', head)
        tags = dict(re.findall(r'<meta (?:name|property)="([^"]*)" content="([^"]*)"', head))
        assert canonical == tags["og:url"] == SITE + name
        assert tags["og:image"] == SITE + "_static/social.png"
        assert (BUILT / "_static" / "social.png").is_file()
        if name.startswith(("book/", "chapters/")):
            description = tags["description"]
            assert description == tags["og:description"]
            assert 40 <= len(html.unescape(description)) <= 160, name
            assert not set(description) & set("$\\{}"), name
            said["description"].append(description)
    for texts in said.values():
        assert len(set(texts)) == len(texts)


def test_the_root_leads_to_the_front_page_and_a_lost_reader_there_too(browser: Browser, site: str) -> None:
    page = browser.new_page(viewport=DESK)  # type: ignore[arg-type]
    try:
        page.goto(f"{site}#contents")
        page.wait_for_url(f"{site}book/index.html#contents")
        lost = (BUILT / "404.html").read_text("utf-8")
        links = re.findall(r'<a href="([^"]*)"', lost)
        assert links
        top = urlparse(SITE).path
        assert all(link.startswith(top) and (BUILT / link.removeprefix(top)).is_file() for link in links)
    finally:
        page.close()


def test_search_finds_a_word_of_chapter_two(browser: Browser, site: str) -> None:
    page = browser.new_page(viewport=DESK)  # type: ignore[arg-type]
    try:
        page.goto(f"{site}search.html?q=cosFormer")
        page.wait_for_selector("#search-results li a")
        links = page.eval_on_selector_all("#search-results li a", "all => all.map((e) => e.href)")
        assert any("/chapters/02_linear_attention" in link for link in links), links
    finally:
        page.close()


def test_search_knows_other_names_and_shows_sentences(browser: Browser, site: str) -> None:
    page = browser.new_page(viewport=PHONE, color_scheme="dark")  # type: ignore[arg-type]
    try:
        page.goto(f"{site}search.html")
        wanted = {
            (word.strip(), f"{name}.html" + (f"#{place}" if place else ""))
            for name, places in SYNONYMS.items()
            for place, words in places.items()
            for word in words.split(",")
        }
        found = page.evaluate(FIND_NAMES, sorted({word for word, _ in wanted}))
        assert not [(word, place) for word, place in wanted if place not in found[word]]
        for query, first in SPELLINGS.items():
            hits = page.evaluate(SEARCH, query)
            assert hits[0]["place"] == first, query
            for hit in hits:
                assert len(hit["said"]) > 20, (query, hit)
                assert not set(hit["title"] + hit["said"]) & set("\\${}"), (query, hit)
            assert page.evaluate(WIDER_THAN_WINDOW) == []
        for query in UNTREATED:
            assert page.evaluate(SEARCH, query) == [], query
    finally:
        page.close()


def test_colab_opens_the_chapter_and_its_exercises(browser: Browser, site: str) -> None:
    page = browser.new_page()
    try:
        page.goto(f"{site}chapters/02_linear_attention.html")
        links = page.eval_on_selector_all(
            "a[href*='colab.research.google.com']", "all => all.map((e) => e.href)"
        )
        places = {link.split("/blob/main/")[1] for link in links}
        assert places == {
            "chapters/02_linear_attention.ipynb",
            "exercises/ch02_linear/ch02_linear_exercises.ipynb",
        }
        with page.expect_download() as download:
            page.get_by_role("link", name="Download").click()
        assert '"set": "ch02_linear"' in download.value.path().read_text()
    finally:
        page.close()


def test_the_list_leads_to_an_exercise_whose_solution_is_folded(browser: Browser, site: str) -> None:
    page = browser.new_page(viewport=DESK)  # type: ignore[arg-type]
    try:
        page.goto(f"{site}chapters/01_softmax_attention.html")
        page.get_by_role("link", name="1.5 Two readers of one book").first.click()
        exercise = page.locator("#ex-ch01-q5")
        assert exercise.bounding_box()["y"] < DESK["height"]  # type: ignore[index]
        solution = page.locator(".solution", has_text="Two readers of one book")
        code = solution.locator("pre")
        assert not code.is_visible()
        solution.get_by_role("button").click()
        code.wait_for(state="visible")
    finally:
        page.close()


def test_a_link_to_a_folded_exercise_opens_it(browser: Browser, site: str) -> None:
    page = browser.new_page(viewport=DESK)  # type: ignore[arg-type]
    try:
        page.goto(f"{site}chapters/01_softmax_attention.html#ex-ch01-q3", wait_until="load")
        page.wait_for_function("!document.querySelector('#ex-ch01-q3').classList.contains('toggle-hidden')")
        assert page.locator("#ex-ch01-q4.toggle-hidden").count() == 1
        page.goto(f"{site}chapters/01_softmax_attention.html#ex-ch01-q4")
        page.wait_for_function("!document.querySelector('#ex-ch01-q4').classList.contains('toggle-hidden')")
    finally:
        page.close()


def test_a_link_to_a_figure_holds_its_place_while_the_page_is_built_up(browser: Browser, site: str) -> None:
    page = browser.new_page(viewport=PHONE)  # type: ignore[arg-type]
    try:
        page.goto(f"{site}book/how-to-use.html")
        page.get_by_role("link", name="Figure 2.7").click()
        target = page.locator(":target")
        assert target.locator("figcaption").inner_text().startswith("Figure 2.7")
        target.locator(".main-svg").first.wait_for()
        page.evaluate("MathJax.startup.promise")
        page.wait_for_timeout(500)
        assert 0 <= target.bounding_box()["y"] < 200  # type: ignore[index]
    finally:
        page.close()


def find_blank_figures(pdf: bytes, titles: list[str]) -> list[str]:
    """Return the titles below which a print has no mark of a figure's size in one strong colour."""
    blank = []
    with pypdfium2.PdfDocument(pdf) as document:
        for title in titles:
            for page in document:
                found = page.get_textpage().search(title).get_next()
                if found:
                    break
            below = int(page.get_height() - page.get_textpage().get_charbox(found[0])[1])
            strip = page.render(scale=1).to_numpy()[below : below + 260].reshape(-1, 3)  # points: 260 of 792
            strong = strip[np.ptp(strip.astype(int), axis=1) > 60]
            _, counts = np.unique(strong, axis=0, return_counts=True)
            if max(counts, default=0) < 250:  # highlighted code has fewer pixels of one colour
                blank.append(title)
    return blank


# The formulas above a place may still grow, so the place is looked for again at each turn.
INTO_SECTION = """name => {
  scrollBy({ top: document.getElementById(name).getBoundingClientRect().top + 500, behavior: 'instant' });
  return Boolean(document.querySelector(`.page-toc a.active[href='#${name}']`));
}"""


def test_the_contents_say_where_one_is(browser: Browser, site: str) -> None:
    """Far inside of a section that is many windows high, too."""
    page = browser.new_page(viewport=DESK)
    try:
        page.goto(f"{site}chapters/02_linear_attention.html")
        for name in ("moving-the-brackets", "capacity-how-much-fits"):
            page.wait_for_function(INTO_SECTION, arg=name, polling=200, timeout=20_000)
    finally:
        page.close()


def test_a_print_is_light_has_all_figures_and_keeps_solutions_folded(browser: Browser, site: str) -> None:
    page = browser.new_page(viewport=DESK, color_scheme="dark")  # type: ignore[arg-type]
    try:
        page.goto(f"{site}chapters/02_linear_attention.html", wait_until="load")
        page.wait_for_function("window.Plotly")  # fetched at rest: nobody has scrolled
        on_screen = page.evaluate(LOOK)
        page.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = ({LOOK})(); }})")
        titles = page.locator(".plotly-title").all_text_contents()
        assert find_blank_figures(page.pdf(), titles) == []
        printed = page.evaluate("window.printed")
        assert printed["theme"] == "light"
        assert printed["drawn"] == printed["figures"] > on_screen["drawn"]
        assert printed["widest"] <= 640
        assert printed["ink"] == ["rgb(31, 35, 40)"]
        assert printed["unfolded"] == 0
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.wait_for_function("document.querySelector('.main-svg').clientWidth > 640")  # as wide as before
        page.emulate_media(media="print")
        look = "(all) => all.map((e) => getComputedStyle(e.lastElementChild).visibility)"
        assert set(page.eval_on_selector_all(".exercise", look)) == {"visible"}
        assert set(page.eval_on_selector_all(".solution", look)) == {"hidden"}
    finally:
        page.close()


def test_the_first_figure_of_a_chapter_weighs_what_a_phone_can_bear(browser: Browser) -> None:
    if (BUILT / "_static" / "plotly.min.js").stat().st_size > 2e6:
        pytest.skip("plotly.js is whole: npm did not give the part that the book draws with")
    with weigh.serve_zipped(BUILT) as address:
        weight = weigh.weigh_page(browser, f"{address}chapters/01_softmax_attention.html")
    assert weight.figure is not None
    assert weight.n_bytes < 1.6e6
