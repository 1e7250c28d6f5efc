"use strict";

const rows = [...document.querySelectorAll("#list tr")];
const filter = document.getElementById("filter");
const compare = document.getElementById("compare");

// Every word has to be in the row; what is ticked stays in sight.
function sift() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !row.querySelector("input:checked") && !words.every((word) => text.includes(word));
  }
}

function count() {
  const ticked = document.querySelectorAll("#list input:checked").length;
  compare.disabled = ticked < 2;
  document.getElementById("ticked").textContent = ticked === 1 ? "one more, at least" : "";
}

if (rows.length) {
  filter.addEventListener("input", sift);
  // Enter in the filter is no wish to compare.
  filter.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
  document.getElementById("list").addEventListener("change", count);
  window.addEventListener("pageshow", () => { sift(); count(); });
}
