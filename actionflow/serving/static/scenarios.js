// Keys for labelling: one for each class, the arrows to skip and to go back. The form does the rest.
const form = document.querySelector("#scenario");
const NAME = "actionflow.name";

if (form) {
  const name = form.elements.labelled_by;
  if (name && !name.value) name.value = localStorage.getItem(NAME) ?? "";
  form.addEventListener("submit", () => {
    if (name) localStorage.setItem(NAME, name.value);
  });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, textarea")) return;
  const where = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  const link = where && document.querySelector(`a[rel=${where}]`);
  if (link) return link.click();
  const button = form?.querySelector(`button[data-key="${CSS.escape(event.key)}"]`);
  if (!button) return;
  event.preventDefault();
  button.click();
});
