// Whatever scrolls sideways inside its own box shows at its edge that there is more, and can be reached and scrolled
// from a keyboard. On a phone a wide table of words stands row by row. A link to something folded opens it.
(() => {
  "use strict";

  const BOXES = [
    ["pre", "Code"],
    [".cell_output pre", "Output"],
    ["mjx-container[display]", "Equation"],
    ["span.math mjx-container", "Formula"],
    [".pst-scrollable-table-container", "Table"],
    [".cell_output > .output", "Output"],
  ];
  const phone = matchMedia("(max-width: 576px)");
  const overflows = (box) => box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "visible";
  const frameOf = (box) => (box.parentElement.matches(".book-frame") ? box.parentElement : null);

  // ---- where one is ----------------------------------------------------------------------------------------------

  /** Mark in the contents beside the page the section that begins last above the upper two fifths of the window.
      Bootstrap's own way lost it in long sections and where a page grew while it was built up. */
  function followReading() {
    const links = [...document.querySelectorAll(".page-toc a[href^='#']")];
    const sections = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
    const mark = () => {
      const here = links[sections.findLastIndex((one) => one && one.getBoundingClientRect().top < 0.4 * innerHeight)];
      for (const link of links) link.classList.toggle("active", Boolean(here) && link.closest("li").contains(here));
    };
    addEventListener("scroll", () => requestAnimationFrame(mark), { passive: true });
    mark();
  }
  document.addEventListener("DOMContentLoaded", () => {
    delete document.body.dataset.bsSpy; // Bootstrap reads it when all has loaded
    followReading();
    const number = document.querySelector("#main-content h1 > .section-number, article h1 > .section-number");
    if (number) document.querySelector("#jb-print-docs-body h1")?.prepend(number.cloneNode(true));
  });

  // Words that were searched for stay marked on a result, not on every page that is opened instead of one.
  addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (link && document.querySelector("#search-results") && !link.closest("#search-results"))
      localStorage.removeItem("sphinx_highlight_terms");
  });

  // ---- edges -----------------------------------------------------------------------------------------------------

  /** The box in a frame, which stands still while the box scrolls and so can draw the edges. */
  function framed(box) {
    const frame = document.createElement(box.parentElement.matches("span") ? "span" : "div");
    frame.className = "book-frame";
    box.replaceWith(frame);
    frame.append(box);
    return frame;
  }

  /** On which sides something of the box is out of sight. */
  function updateEdges(box) {
    const frame = frameOf(box);
    if (!frame) return;
    const rest = box.scrollWidth - box.clientWidth - box.scrollLeft;
    const sides = overflows(box) ? [box.scrollLeft > 1 && "left", rest > 1 && "right"].filter(Boolean) : [];
    frame.dataset.more = sides.join(" ");
  }

  /** A formula in a line of text is a box that scrolls only where the line is too short for it. */
  function boundFormula(box) {
    const line = box.closest("span.math");
    box.classList.toggle("book-wide", box.querySelector("mjx-math").offsetWidth > line.clientWidth + 1);
  }

  function nameBox(box, label) {
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", `${label}, scrolls sideways`);
  }

  function unnameBox(box) {
    if (box.tabIndex !== 0 && box.getAttribute("role") !== "group") return;
    for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
  }

  // ---- tables ----------------------------------------------------------------------------------------------------

  const ROLES = { TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TH: "columnheader", TD: "cell" };

  /** Rows as small blocks, each value after the name of its column; what a screen reader hears stays a table. */
  function stackRows(table) {
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    for (const part of [table, ...table.querySelectorAll("thead, tbody, tr, th, td")]) {
      part.setAttribute("role", ROLES[part.tagName]);
    }
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, i) => cell.textContent.trim() && (cell.dataset.label = names[i]));
    }
    table.classList.add("book-stacked");
  }

  /** Tables of numbers are read down their columns and stay tables. */
  function readsByRows(box, table) {
    if (table.tHead?.rows.length !== 1 || table.querySelector("[colspan], [rowspan]")) return false;
    const cells = [...(table.tBodies[0]?.rows[0]?.cells || [])];
    const numbers = cells.filter((cell) => getComputedStyle(cell).textAlign === "right").length;
    return overflows(box) && numbers < cells.length / 2;
  }

  function arrangeTable(box) {
    const table = box.querySelector("table");
    const measured = `${box.clientWidth} ${phone.matches}`;
    if (!table || !box.clientWidth || box.dataset.measured === measured) return;
    box.dataset.measured = measured;
    table.classList.remove("book-stacked");
    if (phone.matches && readsByRows(box, table)) stackRows(table);
  }

  /** The first column stays in sight if it leaves most of the box to the others. */
  function holdFirstColumn(box, frame) {
    const cell = box.querySelector("tbody td, tbody th");
    const holds = cell && cell.offsetWidth <= 0.4 * box.clientWidth && !box.querySelector("tr > :first-child[colspan]");
    frame.classList.toggle("book-held", Boolean(holds));
    const width = holds ? cell.getBoundingClientRect().right - box.getBoundingClientRect().left - 1 : 0;
    frame.style.setProperty("--book-held", `${width}px`);
    frame.style.setProperty("--book-foot", getComputedStyle(box.firstElementChild).marginBottom); // no edge below a table
  }

  // ---- all of them -----------------------------------------------------------------------------------------------

  const resized = new ResizeObserver(() => soon());
  const labels = new Map();

  function findBoxes() {
    for (const [selector, label] of BOXES) {
      for (const box of document.querySelectorAll(`.bd-article :is(${selector})`)) {
        if (!labels.has(box)) resized.observe(box);
        labels.set(box, label);
      }
    }
  }

  function mark() {
    findBoxes();
    for (const [box, label] of labels) {
      if (box.matches(".pst-scrollable-table-container")) arrangeTable(box);
      if (label === "Formula") boundFormula(box);
      const scrolls = overflows(box);
      if (scrolls) nameBox(box, label);
      else unnameBox(box);
      const frame = frameOf(box) || (scrolls && framed(box));
      if (frame && label === "Table") holdFirstColumn(box, frame);
      updateEdges(box);
    }
    holdTarget();
  }

  function openTarget() {
    const target = document.querySelector(":target");
    let opened = false;
    for (let box = target; box; box = box.parentElement) {
      const folded = box.classList.contains("toggle-hidden");
      if (folded) box.querySelector(".admonition-title .toggle-button").click();
      opened ||= folded;
    }
    if (opened) target.scrollIntoView();
  }

  // Formulas and figures above the target of a link change its place while the page is being built up.
  // A page that is loaded again or gone back to stands where the browser puts it.
  let holding = performance.getEntriesByType("navigation")[0]?.type === "navigate";
  const release = () => { holding = false; };
  for (const kind of ["wheel", "touchstart", "pointerdown", "keydown"]) {
    addEventListener(kind, release, { once: true, passive: true });
  }
  const holdTarget = () => holding && document.querySelector(".bd-article :target")?.scrollIntoView();

  let later = 0;
  const soon = () => {
    requestAnimationFrame(mark);
    clearTimeout(later);
    later = setTimeout(mark, 350); // after the theme's own pass
  };
  addEventListener("hashchange", openTarget);
  addEventListener("load", async () => {
    openTarget();
    mark();
    await window.MathJax?.startup?.promise; // formulas come last
    mark();
    setTimeout(release, 5000);
    resized.observe(document.body);
    document.addEventListener("click", soon);
    document.addEventListener("scroll", (event) => labels.has(event.target) && updateEdges(event.target), {
      capture: true, // a box's scrolling does not bubble
      passive: true,
    });
  });
})();
