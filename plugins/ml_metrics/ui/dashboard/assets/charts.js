// Draws the charts of a page, each when it comes into view: a page may have forty charts, a screen shows six.
// The library is loaded for the first of them. Where the page has an address for charts, it has no values yet: those
// of the charts that come into view together are requested together.
"use strict";

const script = document.getElementById("charts");
const page = JSON.parse(script.textContent);
const theme = window.mlMetricsTheme;
const library = document.currentScript.dataset.vega;
const AT_ONCE = 12;
const compiled = new Map();
const known = new Map();
const drawn = new Map();
let loading;

function loadLibrary() {
  loading ??= new Promise((done, failed) => {
    const element = Object.assign(document.createElement("script"), { src: library, onload: done, onerror: failed });
    document.head.append(element);
  });
  return loading;
}

function keep({ shapes, charts: found, runs }, elementOf) {
  for (const chart of found) known.set(elementOf(chart.id), { ...chart, shape: shapes[chart.shape], runs });
}
keep(page, (id) => id);

function shape(spec, dark) {
  const key = `${JSON.stringify(spec)} ${dark}`;
  if (!compiled.has(key)) {
    const whole = { ...spec, autosize: { type: "fit-x", contains: "padding" } };
    compiled.set(key, charts.compile(whole, { config: page.themes[dark ? "dark" : "light"] }).spec);
  }
  return structuredClone(compiled.get(key));
}

function draw(element) {
  const chart = known.get(element.id);
  if (!chart) return element.setAttribute("data-drawn", "none");
  drawn.get(element.id)?.finalize();
  const spec = shape(chart.shape, theme.dark);
  for (const { name, value } of chart.params) spec.signals.find((signal) => signal.name === name).value = value;
  for (const data of spec.data) if (data.name in chart.datasets) data.values = chart.datasets[data.name];
  // Expressions are interpreted, because the content security policy forbids eval.
  const runtime = charts.parse(spec, undefined, { ast: true });
  const view = new charts.View(runtime, { renderer: "svg", expr: charts.expressionInterpreter, container: element, hover: true });
  view.tooltip((_, event, item, value) => (value ? window.mlMetrics.showTip(table(value), event.clientX, event.clientY) : window.mlMetrics.hideTip()));
  view.addEventListener("click", (_, item) => {
    const run = chart.runs[item?.datum?.run];
    if (run) location.href = run;
  });
  drawn.set(element.id, view);
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

async function request(metrics, more, elementOf) {
  const address = new URL(script.dataset.address, location.href);
  for (const metric of metrics) address.searchParams.append("metric", metric);
  for (const [name, value] of Object.entries(more)) address.searchParams.set(name, value);
  const answer = await fetch(address);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  keep(found, elementOf);
  return found.notes;
}

function showNotes(element, texts = []) {
  const list = element.parentElement.querySelector("ul.notes");
  list.replaceChildren(...texts.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  list.hidden = !texts.length;
}

async function fetchMetrics(elements) {
  const byMetric = new Map(elements.map((element) => [element.dataset.metric, element]));
  const notes = await request(byMetric.keys(), {}, (metric) => byMetric.get(metric).id);
  for (const [metric, element] of byMetric) showNotes(element, notes[metric]);
}

// A chart that cannot be had says why in its place; the table of its values may still be there.
function fail(elements, error) {
  for (const element of elements) {
    element.textContent = `The chart cannot be loaded. ${error.message ?? ""}`;
    element.classList.add("about");
    element.setAttribute("data-drawn", "none");
  }
}

async function show(elements, load) {
  try {
    await Promise.all([load?.(elements), loadLibrary()]);
    for (const element of elements) {
      await draw(element);
      // The page answers to its reader between two charts.
      await new Promise((next) => setTimeout(next));
    }
  } catch (error) {
    fail(elements.filter((element) => !element.hasAttribute("data-drawn")), error);
  }
}

const inView = new IntersectionObserver(
  (entries) => {
    const seen = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target);
    for (const element of seen) inView.unobserve(element);
    const metrics = seen.filter((element) => element.dataset.metric !== undefined);
    for (let start = 0; start < metrics.length; start += AT_ONCE) show(metrics.slice(start, start + AT_ONCE), fetchMetrics);
    const times = seen.filter((element) => element.dataset.part);
    for (const element of times) show([element], () => request(JSON.parse(element.dataset.metrics), { part: "time" }, () => element.id));
    show(seen.filter((element) => known.has(element.id) && !metrics.includes(element) && !times.includes(element)));
  },
  { rootMargin: "100px" },
);
for (const element of document.querySelectorAll(".draw")) inView.observe(element);
// The curves within a run: which there are is only known when its event files have been read.
async function fetchCurves(list) {
  const answer = await fetch(list.dataset.curves);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  const sections = found.charts.map((chart, index) => {
    const section = Object.assign(document.createElement("section"), { className: "chart" });
    const draws = Object.assign(document.createElement("div"), { className: "draw", id: `curve-${index}` });
    draws.setAttribute("role", "img");
    draws.setAttribute("aria-label", `${chart.id} over the steps of the run`);
    section.append(Object.assign(document.createElement("h3"), { textContent: chart.id }), draws);
    return section;
  });
  const names = found.charts.map((chart) => chart.id);
  keep(found, (tag) => `curve-${names.indexOf(tag)}`);
  list.replaceChildren(...sections);
  const notes = document.querySelector("[data-notes]");
  notes.replaceChildren(...found.notes.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  document.getElementById("tags").replaceChildren(...found.tags.map((tag) => new Option(tag, tag)));
  for (const draws of list.querySelectorAll(".draw")) inView.observe(draws);
}
const curvesInView = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    curvesInView.unobserve(target);
    fetchCurves(target).catch((error) => fail([target], error));
  }
});
for (const list of document.querySelectorAll("[data-curves]")) curvesInView.observe(list);

document.addEventListener("themechange", () => {
  for (const id of drawn.keys()) draw(document.getElementById(id));
});

// The table behind a chart is on a page of its own; opened here, it is shown here.
for (const details of document.querySelectorAll("details[data-values]")) {
  details.addEventListener("toggle", async () => {
    const link = details.querySelector("p a");
    if (!details.open || !link || details.dataset.asked) return;
    details.dataset.asked = "yes";
    const answer = await fetch(link.href).catch(() => null);
    if (!answer?.ok) return; // the link is still there
    const other = new DOMParser().parseFromString(await answer.text(), "text/html");
    const values = other.querySelector("details.values .wide");
    if (values) link.parentElement.replaceWith(document.adoptNode(values));
  });
}
