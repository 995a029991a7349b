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
for (const link of document.querySelectorAll("a[data-page]")) link.href = withParameter("page", link.dataset.page);

// Addresses leave out empty fields.
for (const form of document.querySelectorAll("form[method=get]")) {
  form.addEventListener("formdata", ({ formData }) => {
    for (const [name, value] of [...formData]) if (!value || (name === "tz" && value === "UTC")) formData.delete(name);
  });
}

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
      linkCells(target);
    }
  },
  { rootMargin: "200px" },
);
for (const row of document.querySelectorAll(".heat tbody tr")) rowsInView.observe(row);

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
  for (; rows[row]?.cells[column]; row += down, column += right) {
    linkCells(rows[row]);
    const link = rows[row].cells[column].querySelector("a");
    if (link) return link.focus();
  }
});

// The keys of the inbox. A key that a user types into a field is theirs, as is one with Ctrl, Alt or the command key.
const inbox = document.querySelector(".inbox");
function moveInInbox(step) {
  const entries = [...inbox.querySelectorAll(".entry")];
  const current = entries.indexOf(document.activeElement.closest(".entry"));
  entries[Math.min(entries.length - 1, Math.max(0, current + step))]?.focus();
}
const keysOfInbox = {
  j: () => moveInInbox(1),
  k: () => moveInInbox(-1),
  a: () => document.activeElement.closest(".entry")?.querySelector(".acknowledge input[name=note]")?.focus(),
  "/": () => document.querySelector("input[type=search]").focus(),
  Enter: () => document.activeElement.matches(".entry") && document.activeElement.querySelector("a")?.click(),
};
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
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
