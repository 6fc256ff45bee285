// Ctrl+Enter asks; a changed chart is drawn at once.
const form = document.querySelector("#question");
const editor = document.querySelector("#sql");

editor.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    form.requestSubmit();
  }
});
document.querySelector("#chart")?.addEventListener("change", (event) => event.currentTarget.requestSubmit());
