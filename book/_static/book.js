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
    const target = document.querySelector(":target");
    let opened = false;
    for (let box = target; box; box = box.parentElement) {
      const folded = box.classList.contains("toggle-hidden");
      if (folded) box.querySelector(".admonition-title .toggle-button").click();
      opened ||= folded;
    }
    if (opened) target.scrollIntoView();
  }

  let later = 0;
  const soon = () => {
    requestAnimationFrame(mark);
    clearTimeout(later);
    later = setTimeout(mark, 350); // after the theme's own pass
  };
  addEventListener("hashchange", openTarget);
  addEventListener("load", async () => {
    await window.MathJax?.startup?.promise;
    openTarget();
    mark();
    new ResizeObserver(soon).observe(document.body);
    document.addEventListener("toggle", soon, true);
    document.addEventListener("click", soon);
  });
})();
