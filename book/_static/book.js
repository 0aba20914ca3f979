// Whatever scrolls sideways inside its own box can be reached and scrolled from a keyboard. A link to something
// folded opens it.
(() => {
  "use strict";

  const BOXES = [
    ["pre", "Code"],
    ["mjx-container", "Formula"],
    [".pst-scrollable-table-container", "Table"],
    [".cell_output > .output", "Output"],
  ];

  function mark() {
    for (const [selector, label] of BOXES) {
      for (const box of document.querySelectorAll(selector)) {
        const scrolls = box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "visible";
        if (scrolls) {
          box.tabIndex = 0;
          box.setAttribute("role", "group");
          box.setAttribute("aria-label", `${label}, scrolls sideways`);
        } else if (box.tabIndex === 0 || box.getAttribute("role") === "group") {
          for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
        }
      }
    }
  }

  function openTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let box = target; box; box = box.parentElement) {
      if (box.classList.contains("toggle-hidden")) box.querySelector(".admonition-title .toggle-button")?.click();
      if (box.tagName === "DETAILS") box.open = true;
    }
    target.scrollIntoView();
  }

  let later = 0;
  const soon = () => {
    requestAnimationFrame(mark);
    clearTimeout(later);
    later = setTimeout(mark, 350); // after the theme's own pass
  };
  addEventListener("hashchange", openTarget);
  addEventListener("load", async () => {
    openTarget();
    await window.MathJax?.startup?.promise;
    mark();
    new ResizeObserver(soon).observe(document.body);
    document.addEventListener("toggle", soon, true);
    document.addEventListener("click", soon);
  });
})();
