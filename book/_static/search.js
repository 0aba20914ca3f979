// Hits of the search. A name in the index leads to its section however it is spelled, and no page is listed below one of
// its sections. Under each hit stand sentences: the section's first, or those of the page that say most of the words.
(() => {
  "use strict";

  const LONGEST = 240; // characters of a passage
  const SHORT = 80; // a passage below that, such as a question, goes on with the next paragraph
  const SKIPPED =
    ".headerlink, script, style, pre, div.math, .eqno, .admonition-title, .solution, .plotly-description";
  const SECTIONS = 'section[id]:not([id$="-content"])'; // not those in which exercises and proofs are wrapped
  const PLACES = `dt[id], .exercise[id], .proof[id]:not(#proof), ${SECTIONS}`;
  const PASSAGES = "p, li, dt, dd, tbody tr, figcaption";
  const stemmer = new Stemmer();

  // ---- names -----------------------------------------------------------------------------------------------------

  /** What "KV cache", "kv-cache" and "KVCaches" have in common. */
  const nameKey = (text) =>
    stemmer.stemWord(splitQuery(text.toLowerCase()).filter((word) => !stopwords.includes(word)).join(""));

  /** The name of what a hit leads to: a section after its page, without TeX. */
  function nameHit(index, [docname, title, anchor]) {
    const file = index.docnames.indexOf(docname);
    const isHere = ([place, id]) => place === file && anchor && `#${id}` === anchor;
    const [section] = Object.entries(index.alltitles).find(([, places]) => places.some(isHere)) || [];
    if (!section) return title;
    return `${index.titles[file]} > ${simplifyTex(section.trim().replace(/^\((.*)\)$/, "$1"))}`;
  }

  /** Each place once, no page below a section of it, and no solution: it stands behind its exercise. */
  function keepBest(hits) {
    const listed = new Set();
    return hits.filter(([docname, , anchor]) => {
      if (anchor.includes("-solution-")) return false;
      const isNew = !listed.has(docname + anchor) && (anchor || !listed.has(`${docname}#`));
      listed.add(docname + anchor);
      if (anchor) listed.add(`${docname}#`);
      return isNew;
    });
  }

  const search = Search._performSearch;
  Search._performSearch = (query, ...rest) => {
    const index = Search._index;
    const names = Object.entries(index.indexentries).filter(([name]) => nameKey(name) === nameKey(query));
    const places = names.flatMap(([, found]) => found);
    Search._index = { ...index, indexentries: { [query.toLowerCase().trim()]: places } };
    const hits = search(query, ...rest); // the best comes last
    Search._index = index;
    return keepBest(hits.reverse()).reverse().map((hit) => [hit[0], nameHit(index, hit), ...hit.slice(2)]);
  };

  // Of equal hits chapters come first, then sections.
  Scorer.score = ([docname, , anchor, , score]) =>
    score + (docname.startsWith("chapters/") ? 0.5 : 0) + (anchor ? 0.25 : 0);

  // ---- passages --------------------------------------------------------------------------------------------------

  const SYMBOLS = {
    R: "ℝ", cdot: "·", times: "×", odot: " ⊙ ", top: "ᵀ", in: " ∈ ", le: " ≤ ", ge: " ≥ ", ne: " ≠ ", gg: " ≫ ",
    to: " → ", pm: "±", propto: " ∝ ", infty: "∞", sum: "∑", sqrt: "√", ell: "ℓ", dots: "…", lVert: "‖", rVert: "‖",
    alpha: "α", beta: "β", gamma: "γ", delta: "δ", Delta: "Δ", varepsilon: "ε", rho: "ρ", sigma: "σ", varphi: "φ",
    Phi: "Φ", omega: "ω", pi: "π", log: "log ", ln: "ln ", exp: "exp ", cos: "cos ", sin: "sin ", max: "max ",
    softmax: "softmax", diag: "diag", mathbb: "", mathrm: "", operatorname: "", text: "", bigl: "", bigr: "",
  };

  const openBraces = (text) =>
    text.replace(/([_^√]?)\{([^{}\\]*)\}/g, (_all, sign, inner) =>
      sign && [...inner].length > 1 ? `${sign}(${inner})` : sign + inner
    );

  /** A formula as one would type it, or dots if it takes more than that. */
  function simplifyTex(tex) {
    let text = tex.replace(/^\s*\\\(|\\\)\s*$/g, "").replace(/\\[,;! ]/g, " ");
    text = text.replace(/\\([A-Za-z]+)\s*/g, (all, name) => SYMBOLS[name] ?? all).replaceAll("^ᵀ", "ᵀ");
    for (let before = ""; before !== text; ) text = openBraces((before = text));
    return /[\\{}$]/.test(text) ? "…" : text.replace(/ +/g, " ").trim();
  }

  /** The part of a page that a hit leads to, reduced to what can be read in a line. */
  function openHit(htmlText, anchor) {
    const page = new DOMParser().parseFromString(htmlText, "text/html");
    page.querySelectorAll(SKIPPED).forEach((element) => element.remove());
    page.querySelectorAll("span.math").forEach((math) => math.replaceWith(simplifyTex(math.textContent)));
    for (const term of page.querySelectorAll("dl.glossary dt")) {
      term.append(": ", ...(term.nextElementSibling?.childNodes || []));
    }
    return {
      part: (anchor && page.getElementById(anchor.slice(1))?.closest(PLACES)) || page.querySelector(".bd-article"),
      about: page.querySelector('meta[name="description"]')?.content || "",
    };
  }

  function readText(passage) {
    const cells = passage.matches("tr") ? [...passage.cells] : [passage];
    const texts = cells.map((cell) => cell.textContent.replace(/\s+/g, " ").replace("….", "…").trim());
    return openBraces(texts.filter((text) => text).join(" · "));
  }

  /** How many of the words a text says; stems stand where a word begins. */
  function countWords(text, words) {
    const lower = text.toLowerCase();
    return words.filter((word) => new RegExp(`(?<!\\p{L})${_escapeRegExp(word)}`, "u").test(lower)).length;
  }

  /** The passages of a part, in order; of nested ones the inner. */
  function findPassages(part) {
    const all = part.matches(PASSAGES) ? [part] : [...part.querySelectorAll(PASSAGES)];
    const isWhole = (e) => e.matches("tr, dt") || !e.querySelector(PASSAGES);
    const kept = all.filter((e) => isWhole(e) && !e.parentElement.closest("tr, dt"));
    return kept.map((element) => ({ element, text: readText(element) })).filter(({ text }) => /\p{L}{3}/u.test(text));
  }

  /** Rate passages by the words that they say, half as much by those of the heading above. */
  function rateBy(words) {
    const rated = new Map();
    const rateHeading = (section) => {
      if (!rated.has(section)) {
        rated.set(section, countWords(section?.querySelector("h1, h2, h3, h4")?.textContent || "", words));
      }
      return rated.get(section);
    };
    return ({ element, text }) => {
      const rate = countWords(text, words) + 0.5 * rateHeading(element.closest(SECTIONS));
      const whole = /^[\p{Lu}“].*[.?!:]$/u.test(text) ? 0.25 : 0; // rather a sentence than a part of one
      return rate && rate + whole;
    };
  }

  /** Sentences of a text from the one that says most of the words on, as many as fit. */
  function cutText(text, words) {
    const sentences = text.split(/(?<=[.?!:])\s+(?=[\p{Lu}\p{N}"“(])/u);
    const counts = sentences.map((sentence) => countWords(sentence, words));
    let [shown, ...rest] = sentences.slice(text.length > LONGEST ? counts.indexOf(Math.max(...counts)) : 0);
    if (shown.length > LONGEST) return `${shown.slice(0, LONGEST).replace(/[\s,;:(]+\S*$/u, "")} …`;
    for (const sentence of rest) {
      if (shown.length + sentence.length >= LONGEST) break;
      shown += ` ${sentence}`;
    }
    return shown;
  }

  Search.makeSearchSummary = (htmlText, keywords, anchor) => {
    const words = [...keywords];
    const { part, about } = openHit(htmlText, anchor);
    if (!part) return null;
    const passages = findPassages(part);
    const rates = passages.map(rateBy(words));
    const opening = passages.findIndex(({ element }) => !element.matches("tr"));
    const best = anchor ? opening : rates.indexOf(Math.max(0.1, ...rates)); // -1 where only code has the words
    let text = passages[best]?.text || about;
    const next = passages[best + 1];
    if (text.length < SHORT && /[.?!:]$/.test(text) && next?.element.matches("p")) text += ` ${next.text}`;

    const shown = document.createElement("p");
    shown.className = "context";
    shown.textContent = cutText(text, anchor ? [] : words).replace(/:$/, " …");
    const place = passages[best]?.element.closest(PLACES)?.id;
    if (place && !anchor) queueMicrotask(() => (shown.parentElement.querySelector("a").hash = place));
    return shown;
  };
})();
