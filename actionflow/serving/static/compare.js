// Dragging over the scatter fills the form with the box; the walls below follow without leaving the page.
import "./keys.js";

const svg = document.querySelector("#scatter svg");
const form = document.querySelector("#box");
const walls = document.querySelector("#walls");
const axis = svg.querySelector(".axis");
const grids = [...svg.querySelectorAll(".grid")].map((line) => Number(line.getAttribute("y1")));
const left = Number(axis.getAttribute("x1")), right = Number(axis.getAttribute("x2"));
const bottom = Math.max(...grids), top = Math.min(...grids);
const share = (value, from, to) => Math.min(Math.max((value - from) / (to - from), 0), 1);
const FIELDS = ["a_low", "a_high", "b_low", "b_high"];
let start = null, brush = null;

const at = (event) => {
  const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return { x: Math.min(Math.max(place.x, left), right), y: Math.min(Math.max(place.y, top), bottom) };
};

const place = (x1, y1, x2, y2) => {
  if (!brush) {
    brush = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    brush.setAttribute("class", "brush");
    svg.append(brush);
  }
  const box = { x: Math.min(x1, x2), y: Math.min(y1, y2), width: Math.abs(x2 - x1), height: Math.abs(y2 - y1) };
  for (const [name, value] of Object.entries(box)) brush.setAttribute(name, value);
  for (const dot of svg.querySelectorAll(".dot")) {
    const x = Number(dot.getAttribute("cx")) - box.x, y = Number(dot.getAttribute("cy")) - box.y;
    dot.classList.toggle("inside", x >= 0 && x <= box.width && y >= 0 && y <= box.height);
  }
  return box;
};

const fill = (box) => {
  const values = [
    share(box.x, left, right), share(box.x + box.width, left, right),
    share(box.y + box.height, bottom, top), share(box.y, bottom, top),
  ];
  FIELDS.forEach((name, n) => { form.elements[name].value = values[n].toFixed(4); });
};

const show = async () => {
  const address = `${location.pathname}?${new URLSearchParams(new FormData(form))}`;
  const answer = await fetch(address);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  walls.replaceChildren(...document.importNode(page.querySelector("#walls"), true).childNodes);
  history.replaceState(null, "", address);
};

svg.addEventListener("pointerdown", (event) => {
  start = at(event);
  svg.setPointerCapture(event.pointerId);
});
svg.addEventListener("pointermove", (event) => {
  if (!start) return;
  const here = at(event);
  place(start.x, start.y, here.x, here.y);
});
svg.addEventListener("pointerup", (event) => {
  if (!start) return;
  const here = at(event);
  if (Math.abs(here.x - start.x) > 3 && Math.abs(here.y - start.y) > 3) {
    fill(place(start.x, start.y, here.x, here.y));
    show();
  }
  start = null;
});
form.elements.split.addEventListener("change", () => form.requestSubmit());

// The box of the address is drawn, so that a link shows what was brushed.
if (FIELDS.some((name) => form.elements[name].value)) {
  const [a, b, c, d] = FIELDS.map((name, n) => Number(form.elements[name].value || n % 2));
  place(left + a * (right - left), bottom + c * (top - bottom), left + b * (right - left), bottom + d * (top - bottom));
}
