// Draws the figures of a page: <figure class="plotly-fig"> with the figure's JSON inside (see plotly_mime.py).
//
// plotly.js is fetched from this site once, when the page is at rest or the first figure comes near the window. What
// is shown is a pure function of (figure, step, theme, width), see plotly_view.js, so a new theme or width never
// loses the reader's step.
// Plotly's own slider and buttons cannot be used from a keyboard; they are replaced by a native range input and a
// button, or, if there are two steps, by two radio buttons.
(() => {
  "use strict";

  const { atFrame, atWidth, inTheme, theme, titleText } = window.plotlyView;
  const MIME = "application/vnd.plotly.v1+json";
  const NARROW = 560; // px of figure width below which the phone layout is used
  const PAPER = 640; // px of figure width in a print
  const STEP_MS = 700;
  const script = document.currentScript;
  const plotlyUrl = new URL(script.dataset.plotly, script.src).href;
  const stillness = matchMedia("(prefers-reduced-motion: reduce)");
  const figures = [];

  let plotly = null; // a promise of the library
  let loaded = null; // the library, once it is there
  let themeOnScreen = null; // set while the page is printed
  function loadPlotly() {
    plotly ??= new Promise((resolve, reject) => {
      const tag = document.createElement("script");
      const define = window.define; // plotly.js would register with require.js instead of setting window.Plotly
      window.define = undefined;
      tag.src = plotlyUrl;
      tag.onload = () => { window.define = define; loaded = window.Plotly; resolve(loaded); };
      tag.onerror = () => { window.define = define; reject(new Error(`cannot load ${plotlyUrl}`)); };
      document.head.append(tag);
    });
    return plotly;
  }

  /** Fetch it while the page is being read, and run it when there is time. */
  function fetchAhead() {
    const link = Object.assign(document.createElement("link"), { rel: "preload", as: "script", href: plotlyUrl });
    document.head.append(link);
    const atRest = window.requestIdleCallback ?? ((call) => setTimeout(call, 500));
    addEventListener("load", async () => {
      await window.MathJax?.startup?.promise;
      atRest(() => loadPlotly());
    });
  }

  // ---- one figure ------------------------------------------------------------------------------------------------

  class Figure {
    constructor(element, number) {
      this.element = element;
      this.plot = element.querySelector(".plotly-plot");
      this.caption = element.querySelector(".plotly-title");
      this.description = element.querySelector(".plotly-description");
      this.spec = JSON.parse(element.querySelector(`script[type="${MIME}"]`).textContent);
      const label = element.querySelector(".plotly-number")?.textContent || `Figure ${number}`;
      this.name = this.caption ? `${label}: ${this.caption.textContent}` : label;
      const slider = this.spec.layout.sliders?.[0];
      this.steps = (slider?.steps || []).map((s) => ({ frame: [s.args[0]].flat()[0], label: s.label ?? "" }));
      this.step = slider?.active ?? 0;
      this.prefix = slider?.currentvalue?.prefix ?? "";
      this.suffix = slider?.currentvalue?.suffix ?? "";
      this.drawn = false;
      if (this.steps.length === 2) this.addToggle();
      else if (this.steps.length > 1) this.addControls();
    }

    async draw() {
      const Plotly = loaded ?? (await loadPlotly()); // a print waits for nothing
      this.drawn = true;
      const printed = themeOnScreen !== null;
      const narrow = !printed && this.element.clientWidth < NARROW;
      const state = atFrame(this.spec, this.steps[this.step]?.frame);
      if (this.caption && titleText(state.layout.title)) this.showTitle(titleText(state.layout.title));
      const { data, layout } = inTheme(atWidth(state, narrow), theme());
      if (printed) Object.assign(layout, { width: PAPER, autosize: false });
      this.plot.style.minHeight = `${layout.height}px`;
      await Plotly.react(this.plot, structuredClone(data), structuredClone(layout), {
        displayModeBar: false,
        responsive: true,
        showTips: false,
      });
      if (!this.element.dataset.drawn) performance.mark("book-figure-drawn");
      this.element.dataset.drawn = "true";
      this.element.dataset.step = String(this.step);
    }

    showTitle(text) {
      const plain = text.replace(/<br\s*\/?>/g, " ");
      if (plain !== this.title && this.title !== undefined) this.caption.textContent = plain.replace(/<[^>]*>/g, "");
      this.title = plain;
    }

    addControls() {
      const id = `plotly-step-${figures.length + 1}`;
      const box = document.createElement("div");
      box.className = "plotly-controls";
      box.innerHTML = `
        <button type="button" class="plotly-play"><span data-play>Play</span><span class="visually-hidden"></span></button>
        <label for="${id}"><span data-prefix></span><span class="visually-hidden"></span></label>
        <output for="${id}"></output>
        <input type="range" id="${id}" min="0" max="${this.steps.length - 1}" step="1">`;
      const label = this.prefix.replace(/[\s:=]+$/, "") || "Step";
      box.querySelector("[data-prefix]").textContent = this.prefix.trim() || label;
      for (const hidden of box.querySelectorAll(".visually-hidden")) hidden.textContent = `, ${this.name}`;
      this.button = box.querySelector("button");
      this.range = box.querySelector("input");
      this.output = box.querySelector("output");
      this.range.addEventListener("input", () => { this.pause(); this.show(Number(this.range.value)); });
      this.button.addEventListener("click", () => (this.timer ? this.pause() : this.play()));
      const motion = () => { this.button.hidden = stillness.matches; if (stillness.matches) this.pause(); };
      stillness.addEventListener("change", motion);
      motion();
      this.plot.before(box);
      this.describe();
    }

    /** Two steps are two names to choose from: there is nothing between them to slide through. */
    addToggle() {
      const name = `plotly-step-${figures.length + 1}`;
      const box = document.createElement("fieldset");
      box.className = "plotly-controls plotly-toggle";
      box.innerHTML = "<legend><span></span><span class=\"visually-hidden\"></span></legend>";
      box.querySelector("span").textContent = this.prefix.trim() || "Show";
      box.querySelector(".visually-hidden").textContent = `, ${this.name}`;
      this.choices = this.steps.map((step, i) => {
        const label = document.createElement("label");
        label.innerHTML = `<input type="radio" name="${name}"><span></span>`;
        label.querySelector("span").textContent = step.label + this.suffix;
        const input = label.querySelector("input");
        input.addEventListener("change", () => this.show(i));
        box.append(label);
        return input;
      });
      this.plot.before(box);
      this.describe();
    }

    describe() {
      if (this.choices) {
        this.choices[this.step].checked = true;
        return;
      }
      const text = this.steps[this.step].label + this.suffix;
      this.range.value = this.step;
      this.range.setAttribute("aria-valuetext", `${this.prefix}${text}`);
      if (this.output.textContent !== text) this.output.textContent = text;
      this.range.style.setProperty("--done", `${(100 * this.step) / (this.steps.length - 1)}%`);
    }

    show(step) {
      this.step = step;
      this.describe();
      return this.draw();
    }

    play() {
      const last = this.steps.length - 1;
      this.output.setAttribute("aria-live", "off");
      this.button.querySelector("[data-play]").textContent = "Pause";
      this.button.dataset.playing = "true";
      if (this.step === last) this.show(0);
      this.timer = setInterval(() => {
        if (this.step >= last) this.pause();
        else this.show(this.step + 1);
      }, STEP_MS);
    }

    pause() {
      if (!this.timer) return;
      clearInterval(this.timer);
      this.timer = null;
      this.button.querySelector("[data-play]").textContent = "Play";
      delete this.button.dataset.playing;
      this.output.removeAttribute("aria-live");
    }
  }

  // ---- the page --------------------------------------------------------------------------------------------------

  const redraw = () => { for (const figure of figures) if (figure.drawn) figure.draw(); };

  // A print is light and has every figure, or its description where plotly.js has not come yet.
  function beforePrint() {
    if (themeOnScreen !== null) return;
    themeOnScreen = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    for (const figure of figures) {
      if (loaded) figure.draw();
      else figure.description.open = true;
    }
  }

  function afterPrint() {
    if (themeOnScreen === null) return;
    document.documentElement.dataset.theme = themeOnScreen;
    themeOnScreen = null;
    for (const figure of figures) if (!figure.drawn) figure.description.open = false;
    redraw();
  }

  function start() {
    const near = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        target.dataset.near = "true";
        figures.find((figure) => figure.element === target).draw();
      }
    }, { rootMargin: "400px" });
    for (const element of document.querySelectorAll(".plotly-fig")) {
      figures.push(new Figure(element, figures.length + 1));
      near.observe(element);
    }
    new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    let phone = figures[0]?.element.clientWidth < NARROW;
    new ResizeObserver(() => {
      const now = figures[0]?.element.clientWidth < NARROW;
      if (now !== phone) { phone = now; redraw(); }
    }).observe(document.body);
    addEventListener("beforeprint", beforePrint);
    addEventListener("afterprint", afterPrint);
    if (figures.length) fetchAhead();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
