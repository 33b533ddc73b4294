"""Figures for print: PNG at 300 DPI through matplotlib, without a display or global state."""

import io
import math
from collections.abc import Sequence
from typing import Any

from assay.reports import style
from assay.reports.chart import Chart, ChartGroup, Series, log_ticks
from assay.reports.numerals import number, tick

_DPI = 300
_WIDTH_IN = 6.5
_HEIGHT_IN = 4.0
_ROW_IN = 0.24  # of a listed text
_LABEL_SHARE = 0.014  # of the width of a chart, for a letter at the end of a bar
_FONT_PT = 9
# Several charts in one figure.
_PANEL_COLUMNS = 3
_PANEL_HEIGHT_IN = 1.75
_PANEL_FONT_PT = 6.5
_MOST_LEGEND_COLUMNS = 3
_LETTER_EM, _LEGEND_KEY_EM = 0.6, 4.8  # a letter, and what stands beside a name, of the font's size


def png(group: ChartGroup, colours: dict[str, str], *, source: str = "") -> bytes:
    """The charts as one PNG; `source` is kept in its metadata, so that a copy can be traced."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    charts = group.charts
    columns = min(len(charts), _PANEL_COLUMNS)
    with matplotlib.rc_context(_settings(small=len(charts) > 1)):
        figure = Figure(figsize=_size(group), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(-(-len(charts) // columns), columns, squeeze=False).flatten()
        # All panels share one scale, so that they can be compared.
        y_values = [value for chart in charts for value in chart.y_values]
        for axes, chart in zip(grid, charts, strict=False):
            styles = style.series_styles(chart, colours)
            for series, drawn in zip(chart.series, styles, strict=True):
                _draw(axes, chart, series, drawn)
            _draw_dots(axes, chart)
            _finish(axes, chart, y_values=y_values)
        for axes in grid[len(charts) :]:
            axes.set_axis_off()
        if len(charts) > 1:
            figure.suptitle(group.title, x=0.01, ha="left", weight="bold")
        _legend(figure, grid, group)
        content = io.BytesIO()
        labels = {"Title": group.title, "Source": source, "Software": None}
        figure.savefig(content, format="png", dpi=_DPI, metadata=labels)
    return content.getvalue()


def _legend(figure: Any, grid: Any, group: ChartGroup) -> None:
    """One key for all panels; none where the subjects are named along the side."""
    if all(chart.names_itself for chart in group.charts):
        return
    keys: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            keys.setdefault(label, handle)
    columns = min(len(keys), _legend_columns(group))
    figure.legend(keys.values(), keys, loc="outside lower center", ncols=columns, frameon=False)


def _legend_columns(group: ChartGroup) -> int:
    """Columns that the longest name leaves room for."""
    points = _FONT_PT if len(group.charts) == 1 else _PANEL_FONT_PT
    names = [series.name for chart in group.charts for series in chart.series]
    longest = max(map(len, names), default=1)
    column_in = points * (_LETTER_EM * longest + _LEGEND_KEY_EM) / 72
    return max(1, min(_MOST_LEGEND_COLUMNS, int(_WIDTH_IN / column_in)))


def _settings(*, small: bool) -> dict[str, Any]:
    points = _PANEL_FONT_PT if small else _FONT_PT
    return {
        "font.family": "DejaVu Sans",
        "font.size": points,
        "text.parse_math": False,
        "axes.edgecolor": style.LIGHT["line"],
        "axes.labelcolor": style.LIGHT["ink"],
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.titlesize": points + 1,
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


def _size(group: ChartGroup) -> tuple[float, float]:
    chart, count = group.charts[0], len(group.charts)
    names = {series.name for chart in group.charts for series in chart.series}
    legend = 0.2 * -(-len(names) // _legend_columns(group))
    body = _HEIGHT_IN if count == 1 else _PANEL_HEIGHT_IN
    if chart.listed:
        longest = max(len(chart.x_values) for chart in group.charts)
        body = (1.1 if count == 1 else 0.7) + _ROW_IN * longest
        legend = 0.0 if chart.names_itself else legend
    rows = -(-count // _PANEL_COLUMNS)
    return _WIDTH_IN, body * rows + legend + (0.3 if count > 1 else 0.0)


def _draw(axes: Any, chart: Chart, series: Series, drawn: style.SeriesStyle) -> None:
    points = (series.y, series.x) if chart.listed else (series.x, series.y)
    if chart.bars:
        bars = axes.barh(series.x, series.y, height=0.6, color=drawn.colour, label=series.name)
        labels = series.labels or [number(y) for y in series.y]
        axes.bar_label(bars, labels=labels, padding=3, fontsize=7)
        axes.margins(x=max(0.12, _LABEL_SHARE * max(map(len, labels))))  # room for these labels
        return
    axes.errorbar(
        *points,
        **{"xerr" if chart.listed else "yerr": series.errors},
        label=series.name,
        color=drawn.colour,
        marker=drawn.marker[1],
        markersize=3 if chart.panel else 4.5,
        linestyle="none" if chart.listed else drawn.dash[1],
        linewidth=1.0 if chart.panel else 1.3,
        elinewidth=0.9,
        capsize=2,
    )


def _draw_dots(axes: Any, chart: Chart) -> None:
    for series in chart.dots:
        axes.plot(
            series.y, series.x, "o", color=style.LIGHT["ink"], markersize=3, alpha=0.7, zorder=3
        )


def _finish(axes: Any, chart: Chart, *, y_values: Sequence[float]) -> None:
    axes.set_title(chart.panel or chart.title)
    value_axis, other_axis = axes.yaxis, axes.xaxis
    if chart.listed:
        value_axis, other_axis = axes.xaxis, axes.yaxis
        axes.set_ylim(len(chart.x_values) - 0.5, -0.5)
        axes.tick_params(axis="y", labelfontfamily="DejaVu Sans Mono", labelsize=7)
    else:
        other_axis.set_label_text(chart.x_label)
    value_axis.set_label_text(chart.y_label)
    if chart.log_x and not chart.listed:
        ticks = chart.x_ticks
        decades = [value for value in ticks if math.log10(value).is_integer()]
        small = chart.panel and chart.round_ticks and decades
        _logarithmic(axes.set_xscale, other_axis, decades if small else ticks)
    if chart.log_y:
        setter = axes.set_xscale if chart.listed else axes.set_yscale
        _logarithmic(setter, value_axis, log_ticks(y_values))
    elif not chart.listed:
        low, high = min(0, *y_values), max(0, *y_values)
        room = 0.08 * (high - low or 1)
        axes.set_ylim(low - room if low < 0 else 0, high + room)
    _compare(axes, chart)


def _compare(axes: Any, chart: Chart) -> None:
    """Draw the lines that series are compared with."""
    colour = style.LIGHT["limit"]
    if chart.limit is not None:
        line = axes.axvline if chart.listed else axes.axhline
        line(chart.limit, color=colour, linestyle="--", linewidth=1.1, label=chart.limit_name)
    for curve in chart.curves:
        axes.plot(curve.x, curve.y, color=colour, linestyle="--", linewidth=1.1, label=curve.name)


def _logarithmic(set_scale: Any, axis: Any, ticks: list[float]) -> None:
    set_scale("log")
    axis.set_ticks(ticks, labels=[tick(value) for value in ticks])
    axis.set_ticks([], minor=True)
