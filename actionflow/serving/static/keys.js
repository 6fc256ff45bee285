// The arrow keys go from sample to sample on a wall.
const neighbour = (cells, here, key) => {
  const at = cells.indexOf(here);
  if (key === "ArrowRight") return cells[at + 1];
  if (key === "ArrowLeft") return cells[at - 1];
  const below = key === "ArrowDown";
  const box = here.getBoundingClientRect();
  const others = below ? cells.slice(at + 1) : cells.slice(0, at).reverse();
  return others.find((each) => {
    const other = each.getBoundingClientRect();
    const otherRow = below ? other.top > box.top + 4 : other.top < box.top - 4;
    return otherRow && Math.abs(other.left - box.left) < box.width / 2;
  });
};

document.addEventListener("keydown", (event) => {
  const here = document.activeElement;
  if (!event.key.startsWith("Arrow") || !here?.matches(".wall .cell")) return;
  const next = neighbour([...here.parentElement.querySelectorAll(".cell")], here, event.key);
  if (next) {
    event.preventDefault();
    next.focus();
  }
});
