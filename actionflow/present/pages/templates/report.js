"use strict";
// Draws the figures, and tells of the sample under the pointer or the keyboard's cursor. All text goes in as text.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const data = read("report-data");
  const { docs, items } = read("report-figures");
  const hovered = document.getElementById("hovered");
  const shelf = document.getElementById("pinned");
  const MOST_PINS = 24;
  const pins = [];
  let current = null;

  const element = (name, classes, text) => {
    const made = document.createElement(name);
    if (classes) made.className = classes;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const number = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(4))) : String(value));
  const className = (value) => (value < 0 ? "–" : data.classes[value] ?? String(value));
  const written = { number, class: className, count: (value) => value.toLocaleString("en") };

  function picture(cell, size) {
    const shown = element("span", `picture sheet-${Math.floor(cell / data.perSheet)}`);
    const place = cell % data.perSheet;
    const side = Number(getComputedStyle(document.documentElement).getPropertyValue("--side"));
    shown.style.setProperty("--scale", size / side);
    shown.style.setProperty("--column", place % data.columns);
    shown.style.setProperty("--row", Math.floor(place / data.columns));
    return shown;
  }

  // A point is {points, source, index}: which group, which Bokeh source, which row of it.
  function fill(card, point, size) {
    const columns = point.source.data;
    const place = columns.place[point.index];
    const parts = [];
    if (data.cells[place] >= 0) parts.push(picture(data.cells[place], size));
    if (data.texts[place]) parts.push(element("p", "text", data.texts[place]));
    const told = element("p", "told");
    for (const [word, column, kind] of point.points.facts) {
      const line = element("span");
      line.append(element("i", "", `${word} `), written[kind](columns[column][point.index]));
      told.append(line);
    }
    const key = data.keys[place];
    told.append(element("span", "", `sample ${data.samples[place]}${key ? `, ${key}` : ""}`));
    parts.push(told);
    card.className = `card ${point.source.tags[0] ?? ""}`;
    card.replaceChildren(...parts);
  }

  function show(point, x, y) {
    current = point;
    fill(hovered, point, 120);
    hovered.hidden = false;
    const box = hovered.getBoundingClientRect();
    hovered.style.left = `${x + 16 + box.width > innerWidth ? Math.max(4, x - 16 - box.width) : x + 16}px`;
    hovered.style.top = `${Math.max(4, Math.min(y + 16, innerHeight - box.height - 8))}px`;
  }

  function hide() {
    current = null;
    hovered.hidden = true;
  }

  const same = (one, other) => one.source === other.source && one.index === other.index;

  function mark() {
    const sources = new Set(groups.flatMap((group) => group.sources));
    for (const source of sources) {
      source.selected.indices = pins.filter((pin) => pin.source === source).map((pin) => pin.index);
    }
    shelf.hidden = pins.length === 0;
  }

  function unpin(pin) {
    pins.splice(pins.indexOf(pin), 1);
    pin.card.remove();
    mark();
  }

  function pin(point) {
    const there = pins.find((each) => same(each, point));
    if (there) return unpin(there);
    const made = { ...point, card: element("div", "card") };
    fill(made.card, point, 72);
    const close = element("button", "", "×");
    close.type = "button";
    close.setAttribute("aria-label", "Let go of this sample");
    close.addEventListener("click", () => unpin(made));
    made.card.append(close);
    pins.push(made);
    if (pins.length > MOST_PINS) unpin(pins[0]);
    shelf.append(made.card);
    mark();
  }

  function clear() {
    while (pins.length) unpin(pins[pins.length - 1]);
    hide();
    for (const group of groups) point_at(group, null);
  }

  // The ring around the point that the card tells of.
  function point_at(group, point) {
    const ring = group.ring;
    if (!ring) return;
    ring.data = point
      ? { x: [point.source.data.x[point.index]], y: [point.source.data.y[point.index]] }
      : { x: [], y: [] };
  }

  let groups = [];
  let pointer = { x: 0, y: 0, down: null };
  document.addEventListener("pointermove", (event) => Object.assign(pointer, { x: event.clientX, y: event.clientY }));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") clear();
  });

  function group_of(document_, points) {
    const sources = points.sources.map((name) => document_.get_model_by_name(name));
    const group = { points, sources, ring: document_.get_model_by_name(`${points.name}-ring`) };
    for (const source of sources) {
      source.inspect.connect(() => {
        const index = source.inspected.indices[0];
        if (index !== undefined) {
          const point = { points, source, index };
          show(point, pointer.x, pointer.y);
          point_at(group, point);
        } else if (current && current.source === source) {
          hide();
          point_at(group, null);
        }
      });
    }
    return group;
  }

  // By keyboard: the points of a group in the order of their action, from the hardest.
  function walk(group) {
    if (!group.order) {
      group.order = group.sources.flatMap((source) =>
        Array.from(source.data[group.points.order], (value, index) => ({ points: group.points, source, index, value })));
      group.order = group.order.filter((point) => !Number.isNaN(point.value)).sort((a, b) => b.value - a.value);
      group.step = -1;
    }
    return group.order;
  }

  function on_key(group, frame, event) {
    const steps = { ArrowLeft: 1, ArrowRight: -1, PageDown: 25, PageUp: -25 };
    if (event.key in steps) {
      const order = walk(group);
      if (!order.length) return;
      group.step = group.step < 0 ? 0 : Math.max(0, Math.min(order.length - 1, group.step + steps[event.key]));
      const box = frame.getBoundingClientRect();
      show(order[group.step], box.right - 260, Math.max(8, box.top));
      point_at(group, order[group.step]);
      event.preventDefault();
    } else if ((event.key === "Enter" || event.key === " ") && current) {
      pin(current);
      event.preventDefault();
    }
  }

  function listen(frame) {
    const group = groups.find((each) => each.points.name === frame.dataset.points);
    frame.addEventListener("keydown", (event) => on_key(group, frame, event));
    frame.addEventListener("pointerdown", (event) => { pointer.down = [event.clientX, event.clientY]; });
    frame.addEventListener("pointerup", (event) => {
      const moved = pointer.down && Math.hypot(event.clientX - pointer.down[0], event.clientY - pointer.down[1]);
      // A drag moves the figure; only a click keeps a sample.
      if (moved !== null && moved < 4 && current) pin(current);
    });
    frame.addEventListener("pointerleave", () => { hide(); point_at(group, null); });
  }

  Bokeh.embed.embed_items(docs, items).then(() => {
    const drawn = Bokeh.documents[0];
    groups = data.points.map((points) => group_of(drawn, points));
    document.querySelectorAll("[data-points]").forEach(listen);
    document.documentElement.dataset.drawn = "yes";
  });
})();
