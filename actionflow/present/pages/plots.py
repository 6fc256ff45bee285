"""The interactive figures of a report, drawn by Bokeh from what the queries returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from bokeh.models import (
    BasicTickFormatter,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    PanTool,
    ResetTool,
    Toolbar,
    WheelZoomTool,
)
from bokeh.models.annotations import Legend, LegendItem
from bokeh.plotting import figure
from matplotlib.colors import to_hex
from numpy.typing import NDArray

from actionflow.present.figures import AMONG, INK, RIGHT, WRONG, dressed, pair_colours, pairs_of

Row = dict[str, Any]
Floats = NDArray[np.float64]

NEUTRAL, GRID = "#555555", "#e8e8e8"
RIGHT_WORD, WRONG_WORD, NEUTRAL_WORD = "right", "wrong", "unjudged"
# Right and wrong differ in form too: in grey the colours would be one.
STYLES: dict[str, dict[str, Any]] = {
    RIGHT_WORD: {"marker": "circle", "color": RIGHT, "size": 5},
    NEUTRAL_WORD: {"marker": "circle", "color": NEUTRAL, "size": 5},
    WRONG_WORD: {"marker": "triangle", "color": WRONG, "size": 8},
}
LEGEND = {RIGHT_WORD: "right at the end", WRONG_WORD: "wrong at the end", NEUTRAL_WORD: "samples"}
MARKERS = {"o": "circle", "s": "square", "D": "diamond", "^": "triangle", "v": "inverted_triangle"}
# From white to the house's blue: darker is more, in grey as well.
SHADES = tuple(
    to_hex((1 - t * (1 - 0x2F / 255), 1 - t * (1 - 0x4F / 255), 1 - t * (1 - 0x7F / 255)))
    for t in np.linspace(0, 1, 64)
)
# Numbers in more cells are not read.
MOST_NUMBERED = 16
# Over more powers of ten the steps in between have no room.
MOST_DECADES = 4
# How far the points of a class lie from its line.
SPREAD = 0.36


@dataclass(frozen=True)
class Cloud:
    """Samples as points: a source for each verdict, named so that the page's script finds them."""

    name: str
    sources: Mapping[str, ColumnDataSource]

    @property
    def source_names(self) -> list[str]:
        """What the sources are called."""
        return [str(source.name) for source in self.sources.values()]


def cloud(name: str, columns: Mapping[str, NDArray[Any]], correct: NDArray[np.int8]) -> Cloud:
    """Points with these columns; `correct` is 1, 0, or -1 where nobody judged."""
    verdicts = {RIGHT_WORD: 1, NEUTRAL_WORD: -1, WRONG_WORD: 0}
    sources = {
        word: ColumnDataSource(
            {column: values[correct == verdict] for column, values in columns.items()},
            name=f"{name}-{word}",
            tags=[word],
        )
        for word, verdict in verdicts.items()
        if (correct == verdict).any()
    }
    return Cloud(name, sources)


def scatter(points: Cloud, x_label: str, y_label: str, logarithmic: bool, height: int = 460) -> figure:
    """Every sample as a point, with a ring around the one that is told of."""
    plot = _figure(height, x_label, y_label, x_axis_type="log" if logarithmic else "linear")
    renderers = [_points(plot, source, "x", "y", word) for word, source in points.sources.items()]
    if logarithmic:
        _logarithmic_ticks(plot, points)
    ring = ColumnDataSource({"x": [], "y": []}, name=f"{points.name}-ring")
    plot.scatter("x", "y", source=ring, size=14, fill_color=None, line_color=INK, line_width=2)
    plot.add_tools(HoverTool(renderers=renderers, tooltips=None))
    items = [_item(LEGEND[word], each) for word, each in zip(points.sources, renderers, strict=True)]
    _legend_above(plot, items, hides=True)
    return plot


def distributions(
    points: Cloud, classes: Sequence[Row], names: Sequence[str], x_label: str, logarithmic: bool
) -> figure:
    """A line for each class, the hardest on top: its samples, their median, the tenth and the ninetieth percentile."""
    plot = _figure(90 + 34 * max(len(classes), 2), x_label, "", x_axis_type="log" if logarithmic else "linear")
    renderers = [_points(plot, source, "x", "row", word, alpha=0.35) for word, source in points.sources.items()]
    if logarithmic:
        _logarithmic_ticks(plot, points)
    rows = list(range(len(classes)))[::-1]
    known = ColumnDataSource(
        {
            "row": rows,
            "name": list(names),
            "samples": [row["samples"] for row in classes],
            **{key: [_number(row[f"action_{key}"]) for row in classes] for key in ("p10", "p50", "p90")},
        }
    )
    middle = plot.segment("p10", "row", "p90", "row", source=known, line_width=3, line_color=INK)
    median = plot.scatter(
        "p50", "row", source=known, marker="diamond", size=12, fill_color="white", line_color=INK, line_width=2
    )
    plot.add_tools(HoverTool(renderers=renderers, tooltips=None))
    told = [("class", "@name"), ("samples", "@samples"), ("p10, median, p90", "@p10, @p50, @p90")]
    plot.add_tools(HoverTool(renderers=[median], tooltips=told))
    _legend_above(plot, [_item("p10 to p90", middle), _item("median", median)])
    _name_rows(plot, rows, names)
    return plot


def row_of_class(labels: NDArray[np.int64], sample_ids: NDArray[np.int64], shown: Sequence[int | None]) -> Floats:
    """Where the points of the shown classes lie, scattered about the line of their class; NaN for other classes."""
    places = {-1 if label is None else label: len(shown) - 1 - place for place, label in enumerate(shown)}
    known = np.array([places.get(int(label), -1) for label in np.unique(labels)])
    rows = known[np.searchsorted(np.unique(labels), labels)].astype(np.float64)
    # Scattered by the sample's number, so that the same sample lies at the same place in every report.
    scattered = ((sample_ids * 2654435761) % 1009) / 1009 - 0.5
    return np.where(rows < 0, np.nan, rows + 2 * SPREAD * scattered)


def loss_curves(measure: str, clusters: pa.Table, centres: pa.Table, closest: pa.Table) -> figure:
    """The centre of each cluster, thick, with the curves closest to it, thin."""
    epochs = sorted(set(centres["epoch"].to_pylist()))
    plot = _figure(380, "epoch", measure)
    items = []
    for cluster, colour, mark in dressed(clusters.to_pylist()):
        around = [row["losses"] for row in closest.to_pylist() if row["cluster"] == cluster["cluster"]]
        centre = [row["loss"] for row in centres.to_pylist() if row["cluster"] == cluster["cluster"]]
        renderers = _cluster(plot, epochs, centre, around, to_hex(colour), MARKERS.get(mark, "circle"), cluster)
        items.append(_item(f"{cluster['name']} ({cluster['samples']:,})", *renderers))
    _legend_above(plot, items[::-1], hides=True)
    _whole_ticks(plot, epochs)
    return plot


def confusion(cells: Sequence[Row], labels: Sequence[int], names: Sequence[str]) -> figure:
    """Rows are the classes, columns what they were taken for; darker is a larger share of the class."""
    rows = {label: len(labels) - 1 - place for place, label in enumerate(labels)}
    columns = {label: place for place, label in enumerate(labels)}
    shown = [row for row in cells if row["label"] in rows and row["prediction"] in columns]
    called = dict(zip(labels, names, strict=True))
    source = ColumnDataSource(
        {
            "row": [rows[each["label"]] for each in shown],
            "column": [columns[each["prediction"]] for each in shown],
            "share": [each["share"] for each in shown],
            "samples": [each["samples"] for each in shown],
            "ink": ["white" if each["share"] > 0.5 else INK for each in shown],
            "name": [called[each["label"]] for each in shown],
            "taken_for": [called[each["prediction"]] for each in shown],
            "percent": [f"{100 * each['share']:.1f} %" for each in shown],
        }
    )
    side = min(640, 110 + 38 * max(len(labels), 3))
    plot = _figure(side, "predicted at the end", "label", sizing_mode="fixed", width=side + 90)
    mapper = LinearColorMapper(palette=SHADES, low=0, high=1)
    boxes = plot.rect(
        "column", "row", 1, 1, source=source, fill_color={"field": "share", "transform": mapper}, line_color="white"
    )
    if len(labels) <= MOST_NUMBERED:
        plot.text(
            "column",
            "row",
            text="samples",
            source=source,
            text_color="ink",
            text_align="center",
            text_baseline="middle",
            text_font_size="11px",
        )
    told = [("label", "@name"), ("predicted", "@taken_for"), ("samples", "@samples"), ("of the class", "@percent")]
    plot.add_tools(HoverTool(renderers=[boxes], tooltips=told))
    _name_rows(plot, list(rows.values()), names)
    _name_columns(plot, list(columns.values()), names)
    plot.grid.visible = False
    return plot


def accuracy_by_quantile(bins: Sequence[Row]) -> figure:
    """Accuracy in each bin of action, the easiest first."""
    source = ColumnDataSource(
        {
            "bin": [row["bin"] for row in bins],
            "accuracy": [_number(row["accuracy"]) for row in bins],
            "samples": [row["samples"] for row in bins],
            "from": [f"{row['score_low']:.4g} to {row['score_high']:.4g}" for row in bins],
        }
    )
    most = max((row["bin"] for row in bins), default=1)
    plot = _figure(300, f"bin of action (1 has the easiest samples, {most} the hardest)", "accuracy at the end")
    plot.line("bin", "accuracy", source=source, line_width=2, color=RIGHT)
    dots = plot.scatter("bin", "accuracy", source=source, size=9, color=RIGHT)
    told = [("bin", "@bin"), ("accuracy", "@accuracy{0.000}"), ("samples", "@samples"), ("action", "@from")]
    plot.add_tools(HoverTool(renderers=[dots], tooltips=told))
    _whole_ticks(plot, [row["bin"] for row in bins])
    _span(plot.y_range, -0.03, 1.03)
    return plot


def quantile_curve(curve: pa.Table) -> figure:
    """Correlation among the samples beyond each quantile, a line for each pair; pairs of one model are dashed."""
    pairs = pairs_of(curve)
    side = curve["side"][0].as_py()
    plot = _figure(400, AMONG[side], "Pearson correlation of action")
    items = []
    for (pair, rows), colour in zip(pairs.items(), pair_colours(pairs).values(), strict=True):
        columns = {key: [row[key] for row in rows] for key in ("quantile", "samples")}
        columns |= {key: [_number(row[key]) for row in rows] for key in ("pearson", "pearson_low", "pearson_high")}
        source = ColumnDataSource({**columns, "pair": [pair] * len(rows)})
        dash = "dashed" if rows[0]["baseline"] else "solid"
        line = plot.line("quantile", "pearson", source=source, color=colour, line_width=2, line_dash=dash)
        dots = plot.scatter("quantile", "pearson", source=source, color=colour, size=6)
        told = [
            ("pair", "@pair"),
            ("quantile", "@quantile{0.00}"),
            ("samples", "@samples"),
            ("Pearson", "@pearson{0.00}"),
        ]
        told.append(("95 % interval", "@pearson_low{0.00} to @pearson_high{0.00}"))
        plot.add_tools(HoverTool(renderers=[dots], tooltips=told))
        items.append(_item(plain(pair), line, dots))
    legend = Legend(items=items, orientation="vertical", border_line_color=None, label_text_font_size="12px")
    plot.add_layout(legend, "below")
    return plot


def _logarithmic_ticks(plot: figure, points: Cloud) -> None:
    """1, 2, 5, 10, … where there is room for them, else powers of ten, each as it is read."""
    values = np.concatenate([np.ones(0), *(np.asarray(each.data["x"], np.float64) for each in points.sources.values())])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return
    low, high = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
    steps = (1, 2, 5) if high - low <= MOST_DECADES else (1,)
    every = max(1, int(high - low) // 8)
    ticks = [float(f"{step}e{power}") for power in range(int(low), int(high) + 1, every) for step in steps]
    plot.xaxis.ticker = FixedTicker(ticks=ticks)
    plot.xaxis.major_label_overrides = {tick: f"{tick:g}" for tick in ticks}


def plain(text: str) -> str:
    """A name as it is: Bokeh would read $$…$$ as a formula, and ask the network for what draws it."""
    return text.replace("$$", "$\u200b$").replace("\\(", "\\\u200b(").replace("\\[", "\\\u200b[")


def short(text: str, most: int = 24) -> str:
    """A name that has room beside an axis."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _figure(height: int, x_label: str, y_label: str, **how: Any) -> figure:
    how = {"sizing_mode": "stretch_width", **how}
    plot = figure(
        height=height, x_axis_label=x_label, y_axis_label=y_label, tools=[], background_fill_color=None, **how
    )
    # Scrolling belongs to the page until somebody takes the wheel from the toolbar.
    plot.toolbar = Toolbar(tools=[PanTool(), WheelZoomTool(), ResetTool()], logo=None, autohide=True)
    plot.outline_line_color = None
    plot.grid.grid_line_color = GRID
    for axis in plot.axis:
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "12px"
        axis.axis_label_text_color = axis.major_label_text_color = INK
        axis.minor_tick_line_color = None
        axis.axis_line_color = axis.major_tick_line_color = "#999999"
    return plot


def _points(plot: figure, source: ColumnDataSource, x: str, y: str, word: str, alpha: float = 0.55) -> Any:
    style = STYLES[word]
    # The few that are wrong must not drown among the many that are right.
    alpha = min(1.0, alpha + 0.35) if word == WRONG_WORD else alpha
    plain_look = {"alpha": alpha, "line_color": "white", "line_width": 0.4}
    kept_look = {"alpha": 1, "line_color": INK, "line_width": 2.5}
    looks: dict[str, Any] = {
        **plain_look,
        **{f"nonselection_{name}": value for name, value in plain_look.items()},
        **{f"selection_{name}": value for name, value in kept_look.items()},
    }
    shape: dict[str, Any] = {"marker": style["marker"], "fill_color": style["color"], "size": style["size"]}
    return plot.scatter(x, y, source=source, **shape, **looks)


def _cluster(
    plot: figure,
    epochs: list[int],
    centre: list[float],
    around: list[list[float]],
    colour: str,
    mark: str,
    cluster: Row,
) -> list[Any]:
    thin = [plot.line(epochs, losses, color=colour, line_width=1, alpha=0.6) for losses in around]
    names = [cluster["name"]] * len(epochs)
    source = ColumnDataSource({"epoch": epochs, "loss": centre, "name": names})
    line = plot.line("epoch", "loss", source=source, color=colour, line_width=3)
    dots = plot.scatter("epoch", "loss", source=source, marker=mark, size=9, color=colour, line_color="white")
    told = [("cluster", "@name"), ("epoch", "@epoch"), ("mean loss", "@loss{0.0000}")]
    plot.add_tools(HoverTool(renderers=[dots], tooltips=told))
    return [line, dots, *thin]


def _legend_above(plot: figure, items: list[LegendItem], hides: bool = False) -> None:
    look: dict[str, Any] = {"border_line_color": None, "padding": 0, "margin": 0, "label_text_font_size": "12px"}
    legend = Legend(items=items, orientation="horizontal", click_policy="hide" if hides else "none", **look)
    plot.add_layout(legend, "above")


def _item(label: str, *renderers: Any) -> LegendItem:
    return LegendItem(label=label, renderers=list(renderers))


def _name_rows(plot: figure, rows: Sequence[int], names: Sequence[str]) -> None:
    plot.yaxis.ticker = FixedTicker(ticks=[float(row) for row in rows])
    # As a mapping of numbers: a name is drawn as it is, whatever it holds.
    plot.yaxis.major_label_overrides = {float(row): plain(short(name)) for row, name in zip(rows, names, strict=True)}
    _span(plot.y_range, -0.6, len(names) - 0.4)
    plot.ygrid.visible = False


def _name_columns(plot: figure, columns: Sequence[int], names: Sequence[str]) -> None:
    plot.xaxis.ticker = FixedTicker(ticks=[float(column) for column in columns])
    plot.xaxis.major_label_overrides = {
        float(column): plain(short(name, 16)) for column, name in zip(columns, names, strict=True)
    }
    plot.xaxis.major_label_orientation = 0.8 if max(map(len, names), default=0) > 3 else "horizontal"
    _span(plot.x_range, -0.6, len(names) - 0.4)


def _whole_ticks(plot: figure, numbers: Sequence[int]) -> None:
    """Epochs and bins have no halves."""
    step = -(-len(numbers) // 20)
    plot.xaxis.ticker = FixedTicker(ticks=[float(each) for each in numbers[:: max(step, 1)]])
    plot.xaxis.formatter = BasicTickFormatter(use_scientific=False)


def _span(extent: Any, start: float, end: float) -> None:
    extent.start, extent.end = start, end


def _number(value: Any) -> float:
    """A number for a source; None becomes NaN, which is drawn as a gap."""
    return float("nan") if value is None else float(value)
