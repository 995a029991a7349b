// Conveniences. Every page shows all of its content without this script.
"use strict";

// The browser's own time zone, as a choice beside UTC.
for (const select of document.querySelectorAll("select[data-zones]")) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && ![...select.options].some((option) => option.value === zone)) select.add(new Option(`local (${zone})`, zone));
}

// Links to the same page in another format, or to the next rows, keep the other query parameters.
function withParameter(name, value) {
  const query = new URLSearchParams(location.search);
  query.set(name, value);
  return `?${query}`;
}
for (const link of document.querySelectorAll("a[data-format]")) link.href = withParameter("format", link.dataset.format);
for (const link of document.querySelectorAll("a[data-sort]")) link.href = withParameter("sort", link.dataset.sort);
for (const link of document.querySelectorAll("a[data-page]")) link.href = withParameter("page", link.dataset.page);

// Addresses leave out empty fields.
for (const form of document.querySelectorAll("form[method=get]")) {
  form.addEventListener("formdata", ({ formData }) => {
    for (const [name, value] of [...formData]) if (!value || (name === "tz" && value === "UTC")) formData.delete(name);
  });
}

// On a phone the filters are folded, so that the first statuses are on the first screen.
for (const more of document.querySelectorAll("details.more")) if (innerWidth <= 600) more.open = false;

// Inside Airflow the page is in a frame that may not navigate the window, so Airflow's own router follows the link.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-airflow]");
  if (!link || window.parent === window || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const outside = window.parent.document.createElement("a");
  outside.href = link.href;
  outside.target = link.target;
  outside.rel = link.rel;
  window.parent.document.body.append(outside);
  outside.click();
  outside.remove();
});

// Each heatmap cell that has no link of its own gets one to its test's runs of that day. The server leaves these links
// out, because 30,000 of them would triple the page. Arrow keys reach them; as tab stops they would be too many.
function linkCells(row) {
  const heads = row.closest("table").tHead.rows[0].cells;
  const test = row.querySelector("th a");
  for (const cell of row.querySelectorAll("td:is(.g, .u, .n):not(:has(a))")) {
    const target = new URL(test.href);
    const { day } = heads[cell.cellIndex].dataset;
    if (day && target.search) {
      target.searchParams.set("since", day);
      target.searchParams.set("until", day);
    }
    const link = Object.assign(document.createElement("a"), { href: target, tabIndex: -1 });
    link.setAttribute("aria-label", `${test.textContent}, ${heads[cell.cellIndex].title}: ${cell.textContent}`);
    link.append(...cell.childNodes);
    cell.append(link);
  }
}
const rowsInView = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      rowsInView.unobserve(target);
      if (target.querySelector("th a")) linkCells(target);
    }
  },
  { rootMargin: "200px" },
);
for (const row of document.querySelectorAll(".heat tbody tr")) rowsInView.observe(row);

// Favourites are kept in this browser and come first.
const FAVOURITES = "ml-metrics-favourites";
function favourites() {
  try {
    return new Set(JSON.parse(localStorage.getItem(FAVOURITES)));
  } catch {
    return new Set(); // a browser may forbid it, or somebody else has written there
  }
}
function toggleFavourite(button, test) {
  const kept = favourites();
  const chosen = !kept.delete(test);
  if (chosen) kept.add(test);
  try {
    localStorage.setItem(FAVOURITES, JSON.stringify([...kept]));
  } catch {
    return;
  }
  mark(button, chosen);
}
function mark(button, chosen) {
  button.setAttribute("aria-pressed", chosen);
  button.textContent = chosen ? "★" : "☆";
}
const testRows = [...document.querySelectorAll(".heat tbody tr:not(.owner)")];
const kept = favourites();
for (const row of testRows) {
  const test = row.querySelector("th a").textContent;
  const button = Object.assign(document.createElement("button"), { className: "star", type: "button" });
  button.setAttribute("aria-label", `Favourite: ${test}`);
  mark(button, kept.has(test));
  button.addEventListener("click", () => toggleFavourite(button, test));
  row.cells[0].prepend(button);
}
const starred = testRows.filter((row) => row.querySelector(".star[aria-pressed=true]"));
if (!document.querySelector(".heat .owner")) testRows[0]?.parentElement.prepend(...starred);

// The search narrows the rows of this page as one types; Enter searches on all pages.
document.querySelector("input[data-search]")?.addEventListener("input", ({ target }) => {
  const parts = target.value.toLowerCase().split(/\s+/);
  for (const row of testRows) {
    const test = row.querySelector("th a").textContent.toLowerCase();
    row.hidden = !parts.every((part) => test.includes(part));
  }
  const count = document.querySelector(".count strong");
  if (count) count.textContent = testRows.filter((row) => !row.hidden).length;
});

// A small curve of the metric that matters, for the rows in view.
const SVG = "http://www.w3.org/2000/svg";
function sparkline({ values, broken, text }) {
  const low = Math.min(...values);
  const reach = Math.max(...values) - low || 1;
  const x = (index) => 2 + (index / Math.max(1, values.length - 1)) * 68;
  const y = (value) => 17 - ((value - low) / reach) * 14;
  const svg = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`).join(" "));
  svg.append(line);
  for (const index of new Set([...broken, values.length - 1])) {
    const point = document.createElementNS(SVG, "rect");
    const size = broken.includes(index) ? 4 : 3;
    for (const [name, value] of Object.entries({ x: x(index) - size / 2, y: y(values[index]) - size / 2, width: size, height: size }))
      point.setAttribute(name, value);
    point.setAttribute("class", broken.includes(index) ? "bad" : "end");
    svg.append(point);
  }
  const title = document.createElementNS(SVG, "title");
  title.textContent = text;
  svg.prepend(title);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", text);
  return svg;
}
async function drawSparklines(cells) {
  const byTest = new Map(cells.map((cell) => [cell.dataset.sparkline ?? cell.closest("tr").querySelector("th a").textContent, cell]));
  const address = new URL("sparklines", location.href);
  for (const test of byTest.keys()) address.searchParams.append("test", test);
  const answer = await fetch(address).catch(() => null);
  if (!answer?.ok) return;
  for (const [test, curve] of Object.entries(await answer.json())) byTest.get(test).replaceChildren(sparkline(curve));
}
const waiting = [];
const sparksInView = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    sparksInView.unobserve(target);
    waiting.push(target);
  }
  while (waiting.length) drawSparklines(waiting.splice(0, 30));
});
for (const cell of document.querySelectorAll(".heat tbody td.s, [data-sparkline]")) sparksInView.observe(cell);

const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
document.addEventListener("keydown", (event) => {
  const cell = event.target.closest(".heat tbody :is(th, td)");
  if (!cell || !(event.key in steps)) return;
  event.preventDefault();
  const [down, right] = steps[event.key];
  const rows = cell.closest("tbody").rows;
  let row = cell.parentElement.sectionRowIndex + down;
  let column = cell.cellIndex + right;
  // Cells without a run are skipped.
  for (; rows[row] && column >= 0 && column < cell.parentElement.cells.length; row += down, column += right) {
    if (rows[row].hidden || !rows[row].cells[column] || rows[row].matches(".owner")) continue;
    linkCells(rows[row]);
    const link = rows[row].cells[column].querySelector("a");
    if (link) return link.focus();
  }
});

// Filters act at once (theme.js); the button is for a browser without scripts, and for Enter.
for (const button of document.querySelectorAll("[data-at-once]")) button.hidden = button.dataset.atOnce !== "shown";

// The keys of the inbox. A key that a user types into a field is theirs, as is one with Ctrl, Alt or the command key.
const inbox = document.querySelector(".inbox");
const entryInFocus = () => document.activeElement.closest(".entry");
function moveInInbox(step) {
  const entries = [...inbox.querySelectorAll(".entry")];
  const current = entries.indexOf(entryInFocus());
  entries[Math.min(entries.length - 1, Math.max(0, current + step))]?.focus();
}
function openIn(entry, field) {
  for (const details of entry?.querySelectorAll(field ? "details" : ":scope > details") ?? []) details.open = field || !details.open;
  if (field) entry?.querySelector(field)?.focus();
}

// Several incidents at once: the tests of the chosen rows become fields of one form.
const several = document.querySelector("#several");
function showChosen() {
  const chosen = [...inbox.querySelectorAll(".row input:checked")];
  several.hidden = !chosen.length;
  several.querySelector("[data-chosen]").textContent = `${chosen.length} chosen`;
  for (const field of several.querySelectorAll("input[name=test]")) field.remove();
  for (const form of several.querySelectorAll("form"))
    for (const test of chosen.flatMap((box) => box.value.split(" ")))
      form.append(Object.assign(document.createElement("input"), { type: "hidden", name: "test", value: test }));
}
if (several) inbox.addEventListener("change", showChosen);

// Of all chosen incidents if there are some, else of the one in focus.
const fill = (name, own) => (several && !several.hidden ? several.querySelector(`[name=${name}]`).focus() : openIn(entryInFocus(), own));
const keysOfInbox = {
  j: () => moveInInbox(1),
  k: () => moveInInbox(-1),
  o: () => openIn(entryInFocus()),
  x: () => entryInFocus()?.querySelector(".row input")?.click(),
  a: () => fill("note", ".acknowledge input[name=note]"),
  q: () => fill("reason", ".quarantine input[name=reason]"),
  u: () => document.querySelector("form.done button")?.click(),
  "/": () => document.querySelector("input[type=search]").focus(),
  Enter: () => document.activeElement.querySelector("a")?.click(),
};
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox]), select, textarea");
  if (!inbox || typing || event.ctrlKey || event.altKey || event.metaKey || !(event.key in keysOfInbox)) return;
  if (event.key === "Enter" && !event.target.matches(".entry")) return;
  event.preventDefault();
  keysOfInbox[event.key]();
});

// A tooltip on hover and on focus.
const tip = Object.assign(document.createElement("div"), { id: "tip", hidden: true });
tip.setAttribute("role", "tooltip");
document.body.append(tip);
function showTip(element, x, y) {
  tip.replaceChildren(element);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - width - 4))}px`;
  tip.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
}
function hideTip() {
  tip.hidden = true;
}
document.addEventListener("focusin", ({ target }) => {
  if (!target.title) return hideTip();
  const { left, bottom } = target.getBoundingClientRect();
  showTip(document.createTextNode(target.title), left, bottom - 14);
});
document.addEventListener("focusout", hideTip);
document.addEventListener("keydown", ({ key }) => key === "Escape" && hideTip());
window.mlMetrics = { showTip, hideTip };
