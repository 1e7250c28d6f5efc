"use strict";

async function decompress(id) {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

// Shorten a name to this length by leaving out its middle.
function shortenName(name, maxLength) {
  if (name.length <= maxLength) return name;
  const end = Math.floor((maxLength - 1) / 2);
  return `${name.slice(0, maxLength - 1 - end)}…${name.slice(-end)}`;
}

function applyTheme({ data, layout }, paper) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name, onPaper) => (paper ? onPaper : style.getPropertyValue(name).trim());
  const narrow = !paper && window.innerWidth < 600;
  const fullMargin = layout.margin.l * (narrow ? 11 / 13 : 1);
  const left = narrow ? Math.min(fullMargin, 0.36 * window.innerWidth) : fullMargin;
  const axis = (name, old) => {
    const changed = {
      ...old,
      // The left margin is the same in all figures over time, whatever their labels.
      automargin: name.startsWith("x"),
      gridcolor: colour("--rule", "#cccccc"),
      linecolor: colour("--rule", "#cccccc"),
      zerolinecolor: colour("--rule", "#cccccc"),
    };
    // A map has its names as categories, or labels of its axis.
    const map = old.ticktext ? undefined : data.find((trace) => trace.type === "heatmap");
    const names = name !== "yaxis" ? undefined : map ? map.y : old.ticktext;
    if (left < fullMargin && Array.isArray(names)) {
      changed.ticktext = names.map((each) => shortenName(each, Math.floor(left / 7)));
      if (map) Object.assign(changed, { tickmode: "array", tickvals: names });
    }
    return changed;
  };
  const themedLayout = {
    ...layout,
    autosize: true,
    dragmode: narrow ? false : "zoom",
    font: { family: "system-ui, sans-serif", size: narrow ? 11 : 13, color: colour("--ink", "#000000") },
    hoverlabel: { align: "left" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft", "#444444"), activecolor: colour("--ink", "#000000") },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: left, r: narrow ? 10 : 20, t: narrow ? 10 : 30, b: layout.showlegend ? 75 : 45 },
    legend: { ...layout.legend, orientation: "h", x: 0, xanchor: "left", yref: "container", y: 0, yanchor: "bottom" },
  };
  for (const name of Object.keys(layout).filter((key) => /^[xy]axis/.test(key))) {
    themedLayout[name] = axis(name, layout[name]);
  }
  return themedLayout;
}

// All figures over time show the same range: a zoom in one of them applies to all.
function linkTimeAxes(ids) {
  let following = false;
  for (const id of ids) {
    document.getElementById(id).on("plotly_relayout", async (change) => {
      const range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (following || range[0] === undefined) return;
      following = true;
      const others = ids.filter((other) => other !== id);
      await Promise.all(others.map((other) => Plotly.relayout(other, { "xaxis.range": range })));
      following = false;
    });
  }
}

// Decode an array of numbers from base64.
function decodeNumbers(packed) {
  if (!packed || packed.bdata === undefined) return packed;
  const kinds = {
    i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array, u4: Uint32Array,
    f4: Float32Array, f8: Float64Array,
  };
  const bytes = Uint8Array.from(atob(packed.bdata), (c) => c.charCodeAt(0));
  const flat = Array.from(new kinds[packed.dtype](bytes.buffer));
  if (packed.shape === undefined) return flat;
  const width = Number(String(packed.shape).split(",")[1]);
  return Array.from({ length: flat.length / width }, (_, row) => flat.slice(row * width, (row + 1) * width));
}

function stripMarkup(text) {
  const lines = String(text).replace(/<br>/g, "; ").replace(/<[^>]*>/g, "");
  return lines.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"').replace(/&amp;/g, "&");
}

// List the columns of a series by name: the names in the figure, else the titles of the axes.
function listColumns(trace, layout) {
  const named = (trace.meta && trace.meta.columns) || {};
  const axisOf = (letter) => layout[(trace[`${letter}axis`] || letter).replace(letter, `${letter}axis`)] || {};
  const [across, up] = [axisOf("x"), axisOf("y")];
  const nameColumn = (key, axis) => named[key] || stripMarkup((axis.title && axis.title.text) || "") || key;
  const readPosition = (value, axis) => {
    if (axis.type === "date" && typeof value === "number") return new Date(value).toISOString();
    const at = axis.type === "log" || !axis.ticktext ? -1 : Array.from(decodeNumbers(axis.tickvals)).indexOf(value);
    return at < 0 ? value : stripMarkup(axis.ticktext[at]);
  };
  const columns = [];
  const add = (label, values) => {
    const name = stripMarkup(label);
    let unique = name;
    for (let count = 2; columns.some(([other]) => other === unique); count += 1) unique = `${name} ${count}`;
    columns.push([unique, values]);
  };
  // A map of rows and columns, or the map that areas are drawn from.
  const cells = trace.type === "heatmap" ? trace : trace.meta && trace.meta.cells;
  if (cells) {
    const [x, y, z] = [cells.x, cells.y, cells.z].map(decodeNumbers);
    const bar = (trace.colorbar && trace.colorbar.title && trace.colorbar.title.text) || "value";
    add(nameColumn("x", across), y.flatMap(() => Array.from(x, (value) => readPosition(value, across))));
    add(nameColumn("y", up), y.flatMap((value) => Array.from(x, () => stripMarkup(readPosition(value, up)))));
    // A row of shares is saved as what it is a share of.
    const units = (trace.meta && trace.meta.units) || [];
    add(named.z || stripMarkup(bar), z.flatMap((row, at) => Array.from(row, (value) => value * (units[at] || 1))));
    return columns;
  }
  const [x, y] = [decodeNumbers(trace.x), decodeNumbers(trace.y)];
  for (const { label, values } of trace.dimensions || []) add(stripMarkup(label), Array.from(decodeNumbers(values)));
  if (trace.base !== undefined) {
    add(named.base || "start", Array.from(decodeNumbers(trace.base), (value) => readPosition(value, across)));
  }
  // The length of a bar is a duration, also if its axis has dates.
  const onAxis = (value) => (trace.base === undefined ? readPosition(value, across) : value);
  if (x) add(nameColumn("x", across), Array.from(x, onAxis));
  if (y) add(nameColumn("y", up), Array.from(y, (value) => readPosition(value, up)));
  if (trace.width !== undefined && typeof trace.width === "object") add(named.width || "width", decodeNumbers(trace.width));
  for (const [key, letter] of [["error_x", "x"], ["error_y", "y"]]) {
    const error = trace[key];
    if (!error || error.array === undefined) continue;
    const name = named[key] || `${nameColumn(letter, axisOf(letter))}, above and below`;
    if (error.arrayminus === undefined) add(name, decodeNumbers(error.array));
    else {
      add(`${name}: below`, decodeNumbers(error.arrayminus));
      add(`${name}: above`, decodeNumbers(error.array));
    }
  }
  const colours = trace.marker && decodeNumbers(trace.marker.color);
  if (Array.isArray(colours) && colours.every((value) => typeof value === "number")) {
    add(named.colour || "colour", colours);
  }
  const labels = trace.hovertext !== undefined ? trace.hovertext : trace.text;
  if (Array.isArray(labels)) add(named.text || "label", labels.map(stripMarkup));
  if (trace.customdata !== undefined) {
    const rows = decodeNumbers(trace.customdata);
    (named.customdata || []).forEach((name, at) => add(name, rows.map((row) => row[at])));
  }
  return columns;
}

// The data of a figure as CSV: a row per point, a column per quantity.
function makeTable({ data, layout }) {
  const names = ["series"];
  const rows = [];
  // Guide lines are not data.
  for (const trace of data.filter(({ meta }) => !(meta && meta.aside))) {
    const columns = listColumns(trace, layout);
    for (const [name] of columns) if (!names.includes(name)) names.push(name);
    const length = Math.max(0, ...columns.map(([, values]) => values.length));
    for (let at = 0; at < length; at += 1) {
      const row = new Map(columns.map(([name, values]) => [name, values[at]]));
      const known = [...row.values()].some((value) => value !== null && value !== undefined && !Number.isNaN(value));
      if (known) rows.push(row.set("series", stripMarkup(trace.name || "")));
    }
  }
  const cell = (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "";
    const text = String(value);
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const lines = [names.map(cell), ...rows.map((row) => names.map((name) => cell(row.get(name))))];
  return lines.map((line) => `${line.join(",")}\r\n`).join("");
}

function saveText(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function saveFigure(button, picture) {
  const element = document.getElementById(button.dataset.of);
  const title = element.getAttribute("aria-label");
  const name = title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "figure";
  if (button.dataset.save === "csv") return saveText(makeTable(picture), `${name}.csv`);
  // Dark on white also in dark mode, because the file is for a document.
  const layout = applyTheme(picture, true);
  const width = Math.max(900, element.clientWidth);
  const height = element.clientHeight + 40;
  const fullLayout = {
    ...layout, width, height, autosize: false, paper_bgcolor: "#ffffff",
    title: { text: title.replace(/&/g, "&amp;").replace(/</g, "&lt;") }, margin: { ...layout.margin, t: 70 },
  };
  // Save the range that is shown.
  for (const [axis, shown] of Object.entries(element.layout)) {
    if (/^[xy]axis/.test(axis) && shown.range) fullLayout[axis] = { ...fullLayout[axis], range: shown.range };
  }
  const options = { format: button.dataset.save, filename: name, width, height };
  return Plotly.downloadImage({ data: picture.data, layout: fullLayout }, options);
}

function showProblem(what, error) {
  const problem = document.getElementById("problem");
  problem.textContent = `${what}: ${error}`;
  problem.hidden = false;
}

async function draw() {
  const code = document.createElement("script");
  code.textContent = await decompress("plotly");
  document.head.append(code);
  const pictures = JSON.parse(await decompress("pictures"));
  const buttons = [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
  const drawAll = (paper) => {
    const modebar = window.innerWidth < 600 ? { displayModeBar: false } : { modeBarButtons: buttons };
    for (const [id, picture] of Object.entries(pictures)) {
      Plotly.react(id, picture.data, applyTheme(picture, paper), { responsive: true, displaylogo: false, ...modebar });
    }
  };
  drawAll(false);
  linkTimeAxes(Object.keys(pictures).filter((id) => document.getElementById(id).dataset.over === "time"));
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () => {
      saveFigure(button, pictures[button.dataset.of]).catch((error) => showProblem("The figure cannot be saved", error));
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(false));
  matchMedia("(max-width: 599px)").addEventListener("change", () => drawAll(false));
  window.addEventListener("beforeprint", () => drawAll(true));
  window.addEventListener("afterprint", () => drawAll(false));
}

draw().catch((error) => showProblem("The figures cannot be drawn by this browser", error));
