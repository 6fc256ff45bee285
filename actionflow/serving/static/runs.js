// Filters the list while one types, and lets runs be compared once two are picked.
const filter = document.querySelector("#filter");
const rows = [...document.querySelectorAll("#runs tbody tr")];
const count = document.querySelector("#count");
const compare = document.querySelector("#compare");

filter?.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) {
    const said = row.textContent.toLowerCase() + row.querySelector("input").value;
    row.hidden = !words.every((word) => said.includes(word));
  }
  count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
});

const picked = () => rows.filter((row) => row.querySelector("input").checked).length;
const settle = () => { if (compare) compare.disabled = picked() < 2; };
document.querySelector("#runs")?.addEventListener("change", settle);
settle();

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.matches("input, textarea, select")) {
    event.preventDefault();
    filter?.focus();
  }
});
