// Sends a mark and shows it; the arrow keys go to the next harder or easier sample.
import "./keys.js";

const form = document.querySelector("#mark");
const NAME = "actionflow.name";

if (form) {
  const name = form.elements.marked_by;
  if (name) name.value = localStorage.getItem(NAME) ?? "";
  const label = form.elements.right_label;
  const settle = () => {
    if (label) label.disabled = form.elements.mark.value !== "mislabelled";
  };
  form.addEventListener("change", settle);
  settle();

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = new FormData(form);
    if (name) localStorage.setItem(NAME, name.value);
    const right = given.get("right_label");
    const answer = await fetch(form.dataset.to, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        run: form.dataset.run,
        marked_by: given.get("marked_by") ?? "",
        marks: [{
          sample_id: Number(form.dataset.sample),
          mark: given.get("mark"),
          right_label: right ? Number(right) : null,
          note: given.get("note") || null,
        }],
      }),
    });
    if (answer.ok) {
      location.hash = "marks";
      location.reload();
      return;
    }
    const told = form.querySelector("[role=alert]");
    told.textContent = (await answer.json()).error;
    told.hidden = false;
  });
}

document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea, .wall")) return;
  const where = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  const link = where && document.querySelector(`a[rel=${where}]`);
  if (link) link.click();
});
