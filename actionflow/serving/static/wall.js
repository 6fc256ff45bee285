// The next pages come by themselves when the end of the wall is near; a changed filter is used at once.
import "./keys.js";

const wall = document.querySelector("#wall");
const pages = document.querySelector("#pages");
const filter = document.querySelector("#wall-filter");
let busy = false;

const more = async () => {
  const next = pages.querySelector("a[rel=next]");
  if (!next || busy) return;
  busy = true;
  try {
    const answer = await fetch(next.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    wall.append(...page.querySelectorAll("#wall > .cell"));
    const after = page.querySelector("#pages a[rel=next]");
    if (after) next.replaceWith(document.importNode(after, true));
    else next.remove();
    const told = pages.querySelector("span");
    told.textContent = `1–${wall.children.length.toLocaleString("en")} of ` + told.textContent.split(" of ")[1];
  } finally {
    busy = false;
  }
  if (isNear()) more();
};

const isNear = () => pages.getBoundingClientRect().top < innerHeight + 1200;
// Somebody who came by a link to a later page wants its links, too.
if (!pages.querySelector("a[rel=prev]")) {
  new IntersectionObserver((seen) => { if (seen.some((each) => each.isIntersecting)) more(); }, { rootMargin: "1200px" })
    .observe(pages);
}

filter.addEventListener("change", (event) => {
  if (event.target.name === "split") {
    for (const name of ["label", "cluster"]) if (filter.elements[name]) filter.elements[name].value = "";
  }
  filter.requestSubmit();
});
