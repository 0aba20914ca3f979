// Sets the formulas of a page a slice at a time, those in the window first. A figure in the window that waits to be
// drawn goes before formulas that are out of sight.
(() => {
  "use strict";

  if (!window.MathJax) return; // a page without formulas

  const SLICE = 64; // formulas at a time that are out of sight
  const PATIENCE = 10_000; // ms that these wait for a figure, at most
  const rest = new Set();
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

  function inWindow(element) {
    const { top, bottom } = element.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  }

  async function typesetAll() {
    for (const formula of document.querySelectorAll(".math")) rest.add(formula);
    const start = performance.now();
    const figureWaits = () =>
      performance.now() - start < PATIENCE && document.querySelector(".plotly-fig[data-near]:not([data-drawn])");
    while (rest.size) {
      const seen = [...rest].filter(inWindow);
      if (!seen.length && figureWaits()) {
        await pause(50);
        continue;
      }
      const slice = seen.length ? seen : [...rest].slice(0, SLICE);
      for (const formula of slice) rest.delete(formula);
      await window.MathJax.typesetPromise(slice);
      await pause(0);
    }
  }

  /** Whoever prints before all is set waits for it. */
  function typesetRest() {
    const slice = [...rest];
    rest.clear();
    if (slice.length) window.MathJax.typeset?.(slice);
  }

  window.MathJax.startup = { pageReady: typesetAll }; // MathJax.startup.promise: every formula is set
  addEventListener("beforeprint", typesetRest);
})();
