// Keys for the queue: one for each button, the arrows to skip and to go back. The form does the rest.
const form = document.querySelector("#queue");
const NAME = "actionflow.name";

if (form) {
  const name = form.elements.marked_by;
  if (name && !name.value) name.value = localStorage.getItem(NAME) ?? "";
  form.addEventListener("submit", () => {
    if (name) localStorage.setItem(NAME, name.value);
  });
  const label = form.elements.right_label;
  // The list keeps the focus while one types a class's name: elsewhere its letters would be answers.
  label.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !label.value) return;
    event.preventDefault();
    form.querySelector("[data-key=o]").click();
  });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const where = { ArrowLeft: "prev", ArrowRight: "next", s: "next" }[event.key];
  const link = where && document.querySelector(`a[rel=${where}]`);
  if (link) return link.click();
  const button = form?.querySelector(`button[data-key="${CSS.escape(event.key)}"]`);
  if (!button) return;
  event.preventDefault();
  const label = form.elements.right_label;
  if (event.key === "o" && !label.value) label.focus();
  else button.click();
});
