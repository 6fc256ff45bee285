"""Charts as places on a sheet: a template writes them as SVG, so that every text in them is escaped like any other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

# More bars than that are no longer bars, and more words below them no longer read.
MOST_BARS, MOST_WORDS = 200, 12
LONGEST_WORD = 14
# What is written below a point takes that much.
ROOM_BELOW = 20


@dataclass(frozen=True)
class Tick:
    """A place on an axis and what stands there."""

    at: float
    text: str


@dataclass(frozen=True)
class Dot:
    """A point, what it says when one rests on it, and what is written above or below it."""

    x: float
    y: float
    title: str
    kind: str = ""
    text: str = ""
    radius: float = 4.0
    name: str = ""
    below: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar and what it says when one rests on it."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass
class Chart:
    """A chart; `lines` are the points of polylines as SVG writes them."""

    title: str
    x_name: str
    y_name: str
    width: int = 640
    height: int = 260
    left: int = 56
    top: int = 26
    x_ticks: list[Tick] = field(default_factory=list)
    y_ticks: list[Tick] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)

    @property
    def right(self) -> int:
        """Where the x axis ends."""
        return self.width - 16

    @property
    def bottom(self) -> int:
        """Where the y axis begins."""
        return self.height - 36


@dataclass(frozen=True)
class Scale:
    """Numbers from low to high, laid out between two places."""

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        """The place of a number.

        >>> Scale(0, 10, 100, 200).at(5)
        150.0
        """
        span = self.high - self.low
        share = (value - self.low) / span if span else 0.5
        return round(self.start + share * (self.stop - self.start), 2)

    def ticks(self, most: int = 5) -> list[Tick]:
        """Round numbers within it."""
        return [Tick(self.at(value), f"{value:g}") for value in round_numbers(self.low, self.high, most)]


def round_numbers(low: float, high: float, most: int = 5) -> list[float]:
    """At most so many round numbers from low to high, and one where there is no room between them.

    >>> round_numbers(0, 1, 5)
    [0.0, 0.5, 1.0]
    """
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    step = 10.0 ** math.floor(math.log10(span / most))
    step *= next((factor for factor in (1, 2, 5) if span / (step * factor) < most), 10)
    first = math.ceil(low / step - 1e-9)
    return [round(step * n, 12) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _polylines(points: Sequence[tuple[float, float] | None]) -> list[str]:
    """Points as lines that end where there is none."""
    lines: list[list[str]] = [[]]
    for point in points:
        if point is None:
            lines.append([])
        else:
            lines[-1].append(f"{point[0]:g},{point[1]:g}")
    return [" ".join(line) for line in lines if len(line) > 1]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def loss_curve(rows: Sequence[dict[str, object]], title: str) -> Chart:
    """A sample's loss by epoch; hollow where it was taken for something else, with the name of that beside it.

    Rows have epoch, loss, correct and taken_for.
    """
    chart = Chart(title, "epoch", "loss")
    epochs = [float(str(row["epoch"])) for row in rows]
    losses = [float(str(row["loss"])) if _is_number(row["loss"]) else None for row in rows]
    known = [loss for loss in losses if loss is not None]
    if not known:
        return chart
    x = Scale(min(epochs), max(epochs), chart.left + 30, chart.right - 30)
    y = Scale(min(0.0, *known), max(known) * 1.12 or 1.0, chart.bottom, chart.top)
    chart.x_ticks = [tick for tick in x.ticks(10) if "." not in tick.text]
    chart.y_ticks = y.ticks()
    places = [None if loss is None else (x.at(e), y.at(loss)) for e, loss in zip(epochs, losses, strict=True)]
    chart.lines = _polylines(places)
    before: object = None
    for n, (row, place) in enumerate(zip(rows, places, strict=True)):
        if place is not None:
            below = _in_a_valley(places, n) and place[1] + ROOM_BELOW < chart.bottom
            chart.dots.append(_epoch_dot(row, place, before, len(rows), below))
        before = row["taken_for"]
    return chart


def _in_a_valley(places: list[tuple[float, float] | None], n: int) -> bool:
    """Whether the line rises to both sides of a point: what stands above it would be crossed out."""
    beside = places[max(0, n - 1) : n] + places[n + 1 : n + 2]
    here = places[n]
    return here is not None and bool(beside) and all(there is not None and there[1] < here[1] for there in beside)


def _epoch_dot(row: dict[str, object], place: tuple[float, float], before: object, epochs: int, below: bool) -> Dot:
    taken = row["taken_for"]
    missed = row["correct"] is False
    words = f"epoch {row['epoch']}: loss {float(str(row['loss'])):.4g}" + (f", taken for {taken}" if taken else "")
    # In a long run only what changes has room to be written.
    told = str(taken) if taken is not None and (epochs <= MOST_WORDS or taken != before) else ""
    return Dot(*place, words, "missed" if missed else "", _short(told), 4.0 if epochs <= 60 else 2.0, below=below)


def scatter(points: Sequence[tuple[int, float, float]], title: str, x_name: str, y_name: str) -> Chart:
    """Samples by two numbers from 0 to 1, on a square."""
    chart = Chart(title, x_name, y_name, width=520, height=500)
    x = Scale(0, 1, chart.left, chart.right)
    y = Scale(0, 1, chart.bottom, chart.top)
    chart.x_ticks, chart.y_ticks = x.ticks(6), y.ticks(6)
    radius = 3.0 if len(points) < 1000 else 2.0
    chart.dots = [Dot(x.at(a), y.at(b), f"sample {n}", "point", radius=radius, name=str(n)) for n, a, b in points]
    return chart


def line_chart(points: Sequence[tuple[float, float | None]], title: str, x_name: str, y_name: str) -> Chart:
    """A line through numbers, in the order of x; it ends where there is none."""
    chart = Chart(title, x_name, y_name)
    ordered = sorted(points, key=lambda point: point[0])
    known = [y for _, y in ordered if y is not None]
    if not known:
        return chart
    x = Scale(ordered[0][0], ordered[-1][0], chart.left + 8, chart.right - 8)
    y = Scale(min(0.0, *known), max(0.0, *known), chart.bottom, chart.top)
    chart.x_ticks, chart.y_ticks = x.ticks(10), y.ticks()
    places = [None if value is None else (x.at(at), y.at(value)) for at, value in ordered]
    chart.lines = _polylines(places)
    if len(known) <= MOST_BARS:
        pairs = zip(ordered, places, strict=True)
        chart.dots = [Dot(*place, f"{at:g}: {value:g}", radius=3.0) for (at, value), place in pairs if place]
    return chart


def bar_chart(rows: Sequence[tuple[str, float]], title: str, x_name: str, y_name: str) -> Chart:
    """A bar for each row, in their order."""
    chart = Chart(title, x_name, y_name)
    rows = rows[:MOST_BARS]
    if not rows:
        return chart
    values = [value for _, value in rows]
    y = Scale(min(0.0, *values), max(0.0, *values), chart.bottom, chart.top)
    chart.y_ticks = y.ticks()
    room = (chart.right - chart.left) / len(rows)
    every = -(-len(rows) // MOST_WORDS)
    for place, (word, value) in enumerate(rows):
        high, low = sorted((y.at(value), y.at(0)))
        at = chart.left + room * place
        bar = Bar(round(at + room * 0.1, 2), high, round(room * 0.8, 2), round(low - high, 2), f"{word}: {value:g}")
        chart.bars.append(bar)
        if place % every == 0:
            chart.x_ticks.append(Tick(round(at + room / 2, 2), _short(word)))
    return chart


def _short(word: str) -> str:
    return word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 1] + "…"
