// What a figure looks like at a step, in a theme and at a width: figures in, figures out, nothing drawn.
window.plotlyView = (() => {
  "use strict";

  // ---- plain data ------------------------------------------------------------------------------------------------

  const FIXED = new Set(["colorscale", "insidetextfont", "template", "hoverlabel"]); // not drawn on the page itself
  const ON_COLOUR = new Set(["heatmap", "bar"]);

  const isObject = (x) => x !== null && typeof x === "object" && !Array.isArray(x);

  /** Deep merge; arrays and plotly's encoded arrays ({dtype, bdata}) are values. */
  function merge(base, over) {
    if (!isObject(base) || !isObject(over) || "bdata" in over) return over;
    const out = { ...base };
    for (const [key, value] of Object.entries(over)) out[key] = key in base ? merge(base[key], value) : value;
    return out;
  }

  /** The frame of a name put over the figure: which traces it changes, and what of the layout. */
  function atFrame(spec, name) {
    const frame = (spec.frames || []).find((f) => f.name === name);
    if (!frame) return { data: spec.data, layout: spec.layout };
    const data = [...spec.data];
    (frame.data || []).forEach((trace, i) => {
      const target = frame.traces ? frame.traces[i] : i;
      data[target] = merge(data[target], trace);
    });
    return { data, layout: merge(spec.layout, frame.layout || {}) };
  }

  const titleText = (title) => (typeof title === "string" ? title : title?.text) || "";
  const axisNames = (layout) => Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key));

  // ---- colours ---------------------------------------------------------------------------------------------------

  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });

  function rgba(color) {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = "#000";
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return { rgb: [r, g, b], alpha: a / 255 };
  }

  function luminance(rgb) {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function contrast(a, b) {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  }

  function theme() {
    const css = getComputedStyle(document.body);
    const read = (name) => css.getPropertyValue(name).trim();
    return {
      dark: document.documentElement.dataset.theme === "dark",
      text: read("--pst-color-text-base"),
      textRgb: rgba(read("--pst-color-text-base")).rgb,
      pageRgb: rgba(read("--pst-color-background")).rgb,
      surface: read("--pst-color-surface"),
      grid: read("--book-figure-grid"),
      font: css.fontFamily,
    };
  }

  /** A colour moved towards the page's text colour until it stands out from the page: 4.5 for text, 3 for marks. */
  function visible(color, look, least) {
    if (Array.isArray(color)) return color.map((c) => visible(c, look, least));
    if (typeof color !== "string" || !CSS.supports("color", color)) return color;
    const { rgb, alpha } = rgba(color);
    if (alpha < 0.95) return color;
    let mixed = rgb;
    for (let share = 0.1; contrast(mixed, look.pageRgb) < least && share < 1; share += 0.1) {
      mixed = rgb.map((c, i) => Math.round(c + (look.textRgb[i] - c) * share));
    }
    return mixed === rgb ? color : `rgb(${mixed.join(",")})`;
  }

  /** That, for every colour inside `node`; on a light page for text only: marks are chosen for white paper. */
  function readable(node, look, isText = false) {
    if (Array.isArray(node)) return node.some(isObject) ? node.map((item) => readable(item, look, isText)) : node;
    if (!isObject(node) || "bdata" in node) return node;
    const out = {};
    for (const [key, value] of Object.entries(node)) {
      if (key === "color" || key === "colorway") out[key] = isText || look.dark ? visible(value, look, isText ? 4.5 : 3) : value;
      else if (FIXED.has(key) || (key === "textfont" && ON_COLOUR.has(node.type))) out[key] = value;
      else out[key] = readable(value, look, /font$/.test(key));
    }
    return out;
  }

  function inTheme({ data, layout }, look) {
    const clear = { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)" };
    const axis = { gridcolor: look.grid, linecolor: look.grid, zerolinecolor: look.grid, tickcolor: look.grid };
    const template = merge(layout.template || {}, {
      layout: {
        ...clear,
        font: { color: look.text, family: look.font },
        xaxis: axis,
        yaxis: axis,
        legend: { bgcolor: "rgba(0,0,0,0)" },
      },
    });
    if (template.data?.bar) template.data = { ...template.data, bar: [{ type: "bar", marker: { line: { width: 0 } } }] };
    template.layout.colorway = visible(template.layout.colorway, look, look.dark ? 3 : 1);
    const hoverlabel = { bgcolor: look.surface, bordercolor: look.grid, font: { color: look.text, family: look.font } };
    const font = { ...layout.font, family: look.font };
    return {
      data: data.map((trace) => readable(trace, look)),
      layout: { ...readable(layout, look), ...clear, template, font, hoverlabel },
    };
  }

  // ---- width -----------------------------------------------------------------------------------------------------

  /** The layout for this page: the title is the caption, controls are native, touch scrolls the page. */
  function atWidth({ data, layout }, narrow) {
    const out = { ...layout, autosize: true, dragmode: false };
    for (const key of ["title", "sliders", "updatemenus", "width"]) delete out[key];
    for (const name of axisNames(out)) out[name] = { ...out[name], fixedrange: true, automargin: true };
    out.legend = { ...out.legend, itemclick: false, itemdoubleclick: false }; // no mouse-only controls
    const title = titleText(layout.title);
    const freed = title ? 10 + 20 * title.split(/<br\s*\/?>/).length : 0; // px that the title took
    const height = layout.height || 420;
    const margin = { l: 56, r: 16, b: 48, t: freed + 24, ...out.margin };
    out.margin = { ...margin, t: Math.max(12, margin.t - freed) };
    out.height = height - freed;
    // what hangs from the figure's top edge keeps its distance to the plot
    const raised = (part) => {
      const hangs = part?.yref === "container" && part.yanchor === "top";
      return hangs ? { ...part, y: 1 - ((1 - part.y) * height - freed) / out.height } : part;
    };
    out.legend = raised(out.legend);
    if (out.coloraxis) out.coloraxis = { ...out.coloraxis, colorbar: raised(out.coloraxis.colorbar) };
    const named = data.filter((trace) => trace.showlegend !== false && trace.name).length;
    if (narrow && named > 1 && out.showlegend !== false && out.legend.x === undefined && !out.legend.orientation) {
      Object.assign(out.legend, { x: 0, xanchor: "left", y: 0, yanchor: "bottom", yref: "container" });
      out.height += 24 * named; // a legend beside the plot moves below it
    }
    return { data, layout: out };
  }

  return { atFrame, atWidth, inTheme, theme, titleText };
})();
