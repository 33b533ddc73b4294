"""Charts for print: PNG at 300 DPI through matplotlib, without a display or global state."""

import io
from typing import Any

from assay.reports import style
from assay.reports.chart import Chart, Series, log_ticks, spaced_ticks
from assay.reports.numerals import tick

_MOST_LEGEND_COLUMNS = 3


def png(chart: Chart, colours: dict[str, str], *, source: str = "") -> bytes:
    """The chart as a PNG; `source` is kept in its metadata, so that a copy can be traced."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_settings()):
        figure = Figure(figsize=_size(chart), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for series, look in zip(chart.series, style.looks(chart, colours), strict=True):
            _draw(axes, chart, series, look)
        _finish(axes, chart)
        columns = min(len(chart.series), _MOST_LEGEND_COLUMNS)
        figure.legend(loc="outside lower center", ncols=columns, frameon=False)
        content = io.BytesIO()
        labels = {"Title": chart.title, "Source": source, "Software": None}
        figure.savefig(content, format="png", dpi=style.PRINT_DPI, metadata=labels)
    return content.getvalue()


def _settings() -> dict[str, Any]:
    return {
        "font.family": "DejaVu Sans",
        "font.size": style.PRINT_FONT_PT,
        "text.parse_math": False,
        "axes.edgecolor": style.LIGHT["line"],
        "axes.labelcolor": style.LIGHT["ink"],
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.titlesize": style.PRINT_FONT_PT + 1,
        "axes.grid": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": style.LIGHT["line"],
        "grid.linewidth": 0.6,
        "xtick.color": style.LIGHT["ink"],
        "ytick.color": style.LIGHT["ink"],
        "text.color": style.LIGHT["ink"],
    }


def _size(chart: Chart) -> tuple[float, float]:
    legend_rows = -(-len(chart.series) // _MOST_LEGEND_COLUMNS)
    body = style.PRINT_HEIGHT_IN
    if chart.listed:
        body = 1.1 + style.PRINT_ROW_IN * len(chart.x_values)
    return style.PRINT_WIDTH_IN, body + 0.2 * legend_rows


def _draw(axes: Any, chart: Chart, series: Series, look: style.Look) -> None:
    points = (series.y, series.x) if chart.listed else (series.x, series.y)
    bounds = None
    if series.low:
        below = [y - low for low, y in zip(series.low, series.y, strict=True)]
        bounds = [below, [high - y for high, y in zip(series.high, series.y, strict=True)]]
    axes.errorbar(
        *points,
        **{"xerr" if chart.listed else "yerr": bounds},
        label=series.name,
        color=look.colour,
        marker=look.marker[1],
        markersize=4.5,
        linestyle="none" if chart.listed else look.dash[1],
        linewidth=1.3,
        elinewidth=0.9,
        capsize=2,
    )


def _finish(axes: Any, chart: Chart) -> None:
    axes.set_title(chart.title)
    value_axis, other_axis = axes.yaxis, axes.xaxis
    if chart.listed:
        value_axis, other_axis = axes.xaxis, axes.yaxis
        axes.set_ylim(len(chart.x_values) - 0.5, -0.5)
        axes.tick_params(axis="y", labelfontfamily="DejaVu Sans Mono", labelsize=7)
    else:
        other_axis.set_label_text(chart.x_label)
    value_axis.set_label_text(chart.y_label)
    if chart.log_x and not chart.listed:
        _logarithmic(axes.set_xscale, other_axis, spaced_ticks(chart.x_values))
    if chart.log_y:
        setter = axes.set_xscale if chart.listed else axes.set_yscale
        _logarithmic(setter, value_axis, log_ticks(chart.y_values))
    elif not chart.listed:
        axes.set_ylim(bottom=min(0, *chart.y_values))
    if chart.limit is not None:
        line = axes.axvline if chart.listed else axes.axhline
        colour = style.LIGHT["limit"]
        line(chart.limit, color=colour, linestyle="--", linewidth=1.1, label=chart.limit_name)


def _logarithmic(set_scale: Any, axis: Any, ticks: list[float]) -> None:
    set_scale("log")
    axis.set_ticks(ticks, labels=[tick(value) for value in ticks])
    axis.set_ticks([], minor=True)
