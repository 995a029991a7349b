// What cannot wait until the page has been read. This script is small and is not deferred.
"use strict";

// A filter that a user changes while the page is still loading acts, too.
document.addEventListener("change", ({ target }) => {
  if (target.matches("select, input[type=date]") && target.form?.querySelector("[data-at-once]")) target.form.requestSubmit();
});

// The theme that the user chose in Airflow, which keeps it for all pages of this server; without a choice, the browser's.
// A page that changes its colours after it is shown would flash.
window.mlMetricsTheme = {
  browser: matchMedia("(prefers-color-scheme: dark)"),
  apply() {
    let chosen;
    try {
      chosen = localStorage.getItem("theme");
    } catch {
      // a browser may forbid it
    }
    const known = chosen === "light" || chosen === "dark";
    document.documentElement.style.colorScheme = known ? chosen : "light dark";
    this.dark = known ? chosen === "dark" : this.browser.matches;
    document.dispatchEvent(new Event("themechange"));
  },
};
window.mlMetricsTheme.apply();
window.mlMetricsTheme.browser.addEventListener("change", () => window.mlMetricsTheme.apply());
window.addEventListener("storage", ({ key }) => key === "theme" && window.mlMetricsTheme.apply());
