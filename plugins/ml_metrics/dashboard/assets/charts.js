// Draws the charts of a page, each when it comes into view: a page may have forty charts, a screen shows six.
"use strict";

const page = JSON.parse(document.getElementById("charts").textContent);
const theme = window.mlMetricsTheme;
const compiled = new Map();
const drawn = new Map();

function shape(number, dark) {
  const key = `${number} ${dark}`;
  if (!compiled.has(key)) {
    const spec = { ...page.shapes[number], autosize: { type: "fit-x", contains: "padding" } };
    compiled.set(key, charts.compile(spec, { config: page.themes[dark ? "dark" : "light"] }).spec);
  }
  return structuredClone(compiled.get(key));
}

function draw(chart, element) {
  drawn.get(chart.id)?.finalize();
  const spec = shape(chart.shape, theme.dark);
  for (const { name, value } of chart.params) spec.signals.find((signal) => signal.name === name).value = value;
  for (const data of spec.data) if (data.name in chart.datasets) data.values = chart.datasets[data.name];
  // Expressions are interpreted, because the content security policy forbids eval.
  const runtime = charts.parse(spec, undefined, { ast: true });
  const view = new charts.View(runtime, { renderer: "svg", expr: charts.expressionInterpreter, container: element, hover: true });
  view.tooltip((_, event, item, value) => (value ? window.mlMetrics.showTip(table(value), event.clientX, event.clientY) : window.mlMetrics.hideTip()));
  view.addEventListener("click", (_, item) => {
    const run = page.runs[item?.datum?.run];
    if (run) location.href = run;
  });
  drawn.set(chart.id, view);
  return view.runAsync().then(() => {
    // For screen readers the chart is one picture with one description; the table below it has the values.
    element.querySelector("svg").setAttribute("aria-hidden", "true");
    element.setAttribute("data-drawn", "");
  });
}

function table(value) {
  const rows = Object.entries(value).filter(([, text]) => text !== "null" && text !== "");
  const body = document.createElement("table");
  for (const [name, text] of rows) {
    const row = body.insertRow();
    row.insertCell().textContent = name;
    row.insertCell().textContent = text;
  }
  return body;
}

const inView = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      inView.unobserve(entry.target);
      draw(page.charts.find((chart) => chart.id === entry.target.id), entry.target);
    }
  },
  { rootMargin: "200px" },
);
for (const chart of page.charts) {
  const element = document.getElementById(chart.id);
  if (element) inView.observe(element);
}
document.addEventListener("themechange", () => {
  for (const id of drawn.keys()) draw(page.charts.find((chart) => chart.id === id), document.getElementById(id));
});
