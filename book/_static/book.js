// Whatever scrolls sideways inside its own box can be reached and scrolled from a keyboard.
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

  let later = 0;
  const soon = () => {
    requestAnimationFrame(mark);
    clearTimeout(later);
    later = setTimeout(mark, 350); // after the theme's own pass
  };
  addEventListener("load", async () => {
    await window.MathJax?.startup?.promise;
    mark();
    new ResizeObserver(soon).observe(document.body);
    document.addEventListener("toggle", soon, true);
    document.addEventListener("click", soon);
  });
})();
