// Search results quote a page in words: formulas as one reads them, and nothing that is not text.
(() => {
  "use strict";

  if (typeof Search === "undefined") return; // not the page of search

  const LEFT_OUT = ".plotly-fig script, .plotly-description, .cell_input, div.math, .onlyprint, .eqno";
  const SIMPLE = /^[\w\s.,=+\-<>'()[\]|/]*$/;

  /** A short formula without TeX's commands; anything longer becomes an ellipsis. */
  function readFormula(tex) {
    const plain = tex.replace(/^\\[([]|\\[)\]]$/g, "").replace(/\\,|\\!|[{}$^_]|\\(?=[A-Za-z]+\b)/g, "");
    return SIMPLE.test(plain) && plain.length <= 12 ? plain : "…";
  }

  const toText = Search.htmlToText;
  Search.htmlToText = (page, anchor) => {
    const parsed = new DOMParser().parseFromString(page, "text/html");
    for (const part of parsed.querySelectorAll(LEFT_OUT)) part.remove();
    for (const formula of parsed.querySelectorAll("span.math")) formula.textContent = readFormula(formula.textContent);
    return toText(parsed.documentElement.outerHTML, anchor);
  };
})();
