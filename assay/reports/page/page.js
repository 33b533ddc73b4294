// Draws the charts in the reader's colours, shows one panel of a figure at a time, and sorts tables
// on their headers, and copies them.
"use strict";
const themes = JSON.parse(document.getElementById("themes").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const charts = Array.from(document.querySelectorAll(".chart"));

function painted(layout, theme) {
  layout.font.color = theme.ink;
  layout.font.family = getComputedStyle(document.body).fontFamily;
  for (const axis of [layout.xaxis, layout.yaxis]) {
    axis.gridcolor = theme.line;
    axis.linecolor = theme.line;
  }
  for (const shape of layout.shapes || []) shape.line.color = theme.limit;
  for (const label of layout.annotations || []) label.font = {color: theme.limit};
  layout.hoverlabel = {align: "left", bgcolor: theme.raised, bordercolor: theme.line,
                       font: {color: theme.ink}};
  return layout;
}

let shown = "light";  // the name of the theme

const PRINTED_PX = 620;  // a chart's width on paper, where nothing says that the page has changed

function paint(name, width) {
  shown = name;
  // A chart in a hidden panel has no width to be drawn in; it is drawn when it is chosen.
  for (const chart of charts.filter((each) => each.offsetParent !== null)) {
    const figure = JSON.parse(document.getElementById(chart.dataset.figure).textContent);
    // A chart that is resized takes the height of its element, not that of its layout.
    chart.style.height = `${figure.layout.height}px`;
    if (width) figure.layout.width = width;
    Plotly.react(chart, figure.data, painted(figure.layout, themes[name]),
                 {displaylogo: false, displayModeBar: false});
  }
}

// Plotly's own `responsive` misses changes of width that are no event of the window.
const resized = new ResizeObserver((entries) => {
  for (const {target} of entries) {
    if (target.offsetParent !== null && target.data) Plotly.Plots.resize(target);
  }
});

const preferred = () => (dark.matches ? "dark" : "light");
if (charts.length && window.Plotly) {
  paint(preferred());
  for (const chart of charts) resized.observe(chart);
  dark.addEventListener("change", () => paint(preferred()));
  window.addEventListener("beforeprint", () => paint("light", PRINTED_PX));
  window.addEventListener("afterprint", () => paint(preferred()));
}

const choosers = Array.from(document.querySelectorAll("select.panels"));

function choose(name) {
  for (const chooser of choosers) {
    const panels = Array.from(chooser.parentNode.querySelectorAll(".panel"));
    if (!panels.some((panel) => panel.dataset.panel === name)) continue;
    chooser.value = name;
    for (const panel of panels) panel.hidden = panel.dataset.panel !== name;
  }
  if (window.Plotly) paint(shown);
}

for (const chooser of choosers) {
  chooser.addEventListener("change", () => {
    const top = chooser.getBoundingClientRect().top;
    choose(chooser.value);
    window.scrollBy(0, chooser.getBoundingClientRect().top - top);
  });
}

function compared(a, b) {
  const [x, y] = [a.dataset.value, b.dataset.value];
  if (a.dataset.absent || b.dataset.absent) return null;
  const numbers = x !== undefined && y !== undefined;
  return numbers ? Number(x) - Number(y) : a.textContent.localeCompare(b.textContent);
}

function sort(header) {
  const table = header.closest("table");
  const index = Array.from(header.parentNode.children).indexOf(header);
  const down = header.getAttribute("aria-sort") === "ascending";
  for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  rows.sort((upper, lower) => {
    const [a, b] = [upper.cells[index], lower.cells[index]];
    const order = compared(a, b);
    // What is unknown stays last in either direction.
    if (order === null) return (a.dataset.absent ? 1 : 0) - (b.dataset.absent ? 1 : 0);
    return down ? -order : order;
  });
  body.append(...rows);
}

for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => sort(button.closest("th")));
}
window.addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});

// A cell as it is shown; or without the small print, and with all digits of the number behind it
// where that is the number shown: a table may sort on another.
function shownText(cell) {
  return cell.textContent.replace(/\s+/g, " ").trim();
}
function plainText(cell) {
  const copy = cell.cloneNode(true);
  for (const small of copy.querySelectorAll("td small, th small, sup")) small.remove();
  const text = shownText(copy);
  const rounded = text === "" ? NaN : Number(text.replaceAll(",", ""));
  const value = Number(cell.dataset.value);
  if (Math.abs(value - rounded) <= 0.01 * Math.abs(rounded)) return cell.dataset.value;
  if (!Number.isNaN(rounded)) return String(rounded);
  return /^[=+@-]/.test(text) ? `'${text}` : text;  // no formula in a spreadsheet
}

function copied(table, format) {
  const head = Array.from(table.tHead.rows[0].cells, shownText);
  const cellText = format === "tsv" ? plainText : shownText;
  const rows = Array.from(table.tBodies[0].rows, (row) => Array.from(row.cells, cellText));
  if (format === "tsv") return [head, ...rows].map((row) => row.join("\t")).join("\n");
  const line = (row) => `| ${row.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.parentNode.hidden = false;
  button.addEventListener("click", async () => {
    const table = button.parentNode.previousElementSibling.querySelector("table");
    let state = `${table.caption.textContent} is copied`;
    try {
      await navigator.clipboard.writeText(copied(table, button.dataset.copy));
    } catch {
      state = "the browser allows no copying here; select the table instead";
    }
    document.getElementById("status").textContent = state;
    const name = button.textContent;
    button.textContent = state.endsWith("copied") ? "copied" : state;
    setTimeout(() => { button.textContent = name; }, 1500);
  });
}
