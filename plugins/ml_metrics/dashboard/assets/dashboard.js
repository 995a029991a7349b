// What a page can do beside being read. Every page is whole without it.
"use strict";

// The browser's own time zone, as a choice beside UTC.
for (const select of document.querySelectorAll("select[data-zones]")) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && ![...select.options].some((option) => option.value === zone)) select.add(new Option(`local (${zone})`, zone));
}

// The same page in another form, with the same question.
function asked(name, value) {
  const query = new URLSearchParams(location.search);
  query.set(name, value);
  return `?${query}`;
}
for (const link of document.querySelectorAll("a[data-format]")) link.href = asked("format", link.dataset.format);
for (const link of document.querySelectorAll("a[data-page]")) link.href = asked("page", link.dataset.page);

// Empty fields only make an address longer.
for (const form of document.querySelectorAll("form[method=get]")) {
  form.addEventListener("formdata", ({ formData }) => {
    for (const [name, value] of [...formData]) if (!value || (name === "tz" && value === "UTC")) formData.delete(name);
  });
}

// Inside Airflow a page is a frame that may not leave it: Airflow's own router, outside, follows the link.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-airflow]");
  if (!link || window.parent === window || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const outside = window.parent.document.createElement("a");
  outside.href = link.href;
  window.parent.document.body.append(outside);
  outside.click();
  outside.remove();
});

// A cell that is well leads to the test's runs of that day, as the others do by themselves.
document.addEventListener("click", (event) => {
  const cell = event.target.closest(".heat td.g, .heat td.u, .heat td.n");
  if (!cell || event.target.closest("a")) return;
  const row = cell.closest("tr");
  const column = cell.closest("table").tHead.rows[0].cells[cell.cellIndex];
  const link = new URL(row.querySelector("th a").href);
  if (column.dataset.day && link.search) {
    link.searchParams.set("since", column.dataset.day);
    link.searchParams.set("until", column.dataset.day);
  }
  location.href = link;
});

// The reason of a cell, on hover and on focus alike.
const why = Object.assign(document.createElement("div"), { id: "why", hidden: true });
why.setAttribute("role", "tooltip");
document.body.append(why);
function show(element, x, y) {
  why.replaceChildren(element);
  why.hidden = false;
  const { width, height } = why.getBoundingClientRect();
  why.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - width - 4))}px`;
  why.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
}
function hide() {
  why.hidden = true;
}
document.addEventListener("focusin", ({ target }) => {
  if (!target.title) return hide();
  const { left, bottom } = target.getBoundingClientRect();
  show(document.createTextNode(target.title), left, bottom - 14);
});
document.addEventListener("focusout", hide);
document.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
window.mlMetrics = { show, hide };
