"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const prefersDark = () => window.matchMedia("(prefers-color-scheme: dark)").matches;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark());
  const show = () => {
    button.textContent = isDark() ? "light" : "dark";
    button.setAttribute("aria-pressed", String(isDark()));
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  show();

  const keyOf = (row, index) => {
    const cell = row.cells[index];
    const text = cell.dataset.key ?? cell.textContent;
    const number = Number(text);
    return text.trim() !== "" && Number.isFinite(number) ? number : text;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });

  for (const header of document.querySelectorAll("th")) {
    header.querySelector("button").addEventListener("click", () => {
      const table = header.closest("table");
      const up = header.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("th")) other.setAttribute("aria-sort", "none");
      header.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows];
      const index = header.cellIndex;
      rows.sort((a, b) => (up ? 1 : -1) * compare(keyOf(a, index), keyOf(b, index)));
      table.tBodies[0].append(...rows);
    });
  }
})();
