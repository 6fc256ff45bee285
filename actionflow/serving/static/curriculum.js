// A changed choice is shown at once; writing tells the command that trains on it.
import "./keys.js";

const choice = document.querySelector("#choice");
const form = document.querySelector("#write");

choice.addEventListener("change", () => choice.requestSubmit());
form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  const answer = await fetch(form.dataset.to, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ run: form.dataset.run, ...JSON.parse(form.dataset.chosen) }),
  });
  const told = await answer.json();
  const [written, command, problem] = form.querySelectorAll("p[role=status], pre, p[role=alert]");
  written.hidden = command.hidden = !answer.ok;
  problem.hidden = answer.ok;
  (answer.ok ? command : problem).textContent = answer.ok ? told.command : told.error;
  button.disabled = answer.ok;
});
