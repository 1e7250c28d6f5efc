"use strict";

const rows = [...document.querySelectorAll("#list tr")];
const filter = document.getElementById("filter");
const compare = document.getElementById("compare");

// A row is shown if it contains every word, or if it is selected.
function filterRows() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !row.querySelector("input:checked") && !words.every((word) => text.includes(word));
  }
}

function countSelected() {
  const selected = document.querySelectorAll("#list input:checked").length;
  compare.disabled = selected < 2;
  document.getElementById("selected").textContent = selected === 1 ? "select at least one more" : "";
}

if (rows.length) {
  filter.addEventListener("input", filterRows);
  // Enter in the filter does not submit the form.
  filter.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
  document.getElementById("list").addEventListener("change", countSelected);
  window.addEventListener("pageshow", () => { filterRows(); countSelected(); });
}
