"""Charts for the page, as Plotly's JSON without a copy of plotly.js."""

import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

from assay.reports import style
from assay.reports.chart import Chart, Series, log_ticks
from assay.reports.numerals import number, tick

_FONT_PX = 13
_HEIGHT_PX = 380
_LEGEND_ROW_PX, _LEGEND_KEY_PX, _LEGEND_LETTER_PX, _LEGEND_WIDTH_PX = 20, 46, 7, 500
_LISTED_ROW_PX = 28
_LINE_WIDTH = 1.8
_MARKER_PX = 8
_DASHED = {"width": 1.5, "dash": "dash"}


def figure_json(chart: Chart, colours: dict[str, str]) -> str:
    """The chart as JSON for Plotly, less the colours of the page, which its script sets."""
    import plotly.graph_objects as go

    styles = zip(chart.series, style.series_styles(chart, colours), strict=True)
    # Plotly reads a few HTML tags in text, so text from outside is escaped here as well.
    traces = [_trace(go, chart, series, drawn) for series, drawn in styles]
    figure = go.Figure(data=traces, layout=_layout(chart))
    if chart.limit is not None:
        _add_limit(figure, chart)
    _add_curves(figure, chart)
    return figure.to_json()


def plotly_script() -> str:
    """The text of plotly.js."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def _trace(go: Any, chart: Chart, series: Series, drawn: style.SeriesStyle) -> Any:
    across, along = ("y", "x") if chart.listed else ("x", "y")
    values = {across: [_escaped(x) for x in series.x], along: list(series.y)}
    bounds = {}
    if series.errors:
        below, above = series.errors
        bars = {"array": above, "arrayminus": below, "thickness": 1.2, "width": 3}
        bounds = {f"error_{along}": {"type": "data", "symmetric": False, **bars}}
    hover = {
        "text": [_hover(series, i) for i in range(len(series.y))],
        "hovertemplate": "%{text}<extra></extra>",
        "cliponaxis": False,
    }
    if chart.bars:
        colour = {"color": drawn.colour}
        return go.Bar(
            **values, **hover, name=escape(series.name), orientation="h", marker=colour,
            textposition="none",
        )  # fmt: skip
    return go.Scatter(
        **values,
        **bounds,
        **hover,
        name=escape(series.name),
        mode="markers" if chart.listed else "lines+markers",
        line={"color": drawn.colour, "width": _LINE_WIDTH, "dash": drawn.dash[0]},
        marker={"color": drawn.colour, "size": _MARKER_PX, "symbol": drawn.marker[0]},
    )


def _hover(series: Series, index: int) -> str:
    x = series.x[index]
    place = escape(x) if isinstance(x, str) else number(x)
    value = f"<b>{number(series.y[index])}</b>"
    if series.low:
        value += f" ({number(series.low[index])}–{number(series.high[index])})"
    hint = series.hints[index] if series.hints else ""
    more = f"<br>{'<br>'.join(escape(part) for part in hint.split(', '))}" if hint else ""
    return f"{escape(series.name)}<br>{place}: {value}{more}"


def _layout(chart: Chart) -> dict[str, Any]:
    legend = _LEGEND_ROW_PX * _legend_rows(chart)
    height = _HEIGHT_PX + legend
    x_axis, y_axis = _x_axis(chart), _y_axis(chart)
    if chart.listed:
        height = _LISTED_ROW_PX * len(chart.x_values) + 80 + legend
        x_axis, y_axis = y_axis, x_axis
    return {
        "template": None,
        "height": height,
        "autosize": True,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": _FONT_PX},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        "showlegend": not chart.names_itself,
        "xaxis": x_axis,
        "yaxis": y_axis,
    }


def _x_axis(chart: Chart) -> dict[str, Any]:
    axis = _axis(chart.x_label)
    if chart.listed:
        order = [_escaped(x) for x in chart.x_values]
        return axis | {
            "title": {"text": ""},  # the listed texts need no name
            "categoryorder": "array",
            "categoryarray": order,
            "range": [len(order) - 0.2, -0.6],  # leaves room for the limit's name
        }
    if not chart.log_x:
        return axis
    ticks = chart.x_ticks
    labels = {"tickvals": ticks, "ticktext": [tick(t) for t in ticks]}
    ends = [x for curve in chart.curves for x in curve.x]
    bounds = {"range": _log_range([*ends, *chart.x_values], 0.0)} if ends else {}
    return {**axis, "type": "log", **labels, **bounds}


def _y_axis(chart: Chart) -> dict[str, Any]:
    axis = _axis(chart.y_label)
    if chart.listed and not chart.log_y:
        low, high = min(0.0, *chart.y_values), max(0.0, *chart.y_values)
        margin = 0.04 * (high - low or 1.0)  # so that points at either end keep clear of the labels
        return {**axis, "range": [low - margin, high + margin]}
    # Plotly does not make room for lines across; where there is one, the range is given.
    lined = chart.limit is not None or chart.curves
    if not chart.log_y:
        room = {"range": [0, 1.08 * max(chart.y_values)]} if lined else {"rangemode": "tozero"}
        return {**axis, **room}
    ticks = log_ticks(chart.y_values)
    labels = {"tickvals": ticks, "ticktext": [tick(t) for t in ticks]}
    bounds = {"range": _log_range(chart.y_values, 0.06)} if lined else {}
    return {**axis, "type": "log", **labels, **bounds}


def _log_range(values: Sequence[float], margin: float) -> list[float]:
    """Ends of a logarithmic axis, as Plotly writes them, with a share of it left on each side."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = margin * (high - low or 1.0)
    return [low - room, high + room]


def _axis(label: str) -> dict[str, Any]:
    return {
        "title": {"text": escape(label), "standoff": 10, "font": {"size": _FONT_PX}},
        "automargin": True,
        "zeroline": False,
        "showline": True,
        "ticks": "",
    }


def _add_limit(figure: Any, chart: Chart) -> None:
    """Add a line across; Plotly wants the logarithm for a label's place, not for a line's."""
    along, across = ("x", "y") if chart.listed else ("y", "x")
    place = math.log10(chart.limit) if chart.log_y else chart.limit
    # Beside the labels of a list, the name stands on the side of the line that has more room.
    middle = sum(_log_range(chart.y_values, 0.0) if chart.log_y else (0, max(chart.y_values))) / 2
    ends = {f"{along}0": chart.limit, f"{along}1": chart.limit, f"{across}0": 0, f"{across}1": 1}
    figure.add_shape(type="line", line=_DASHED, **ends, **{f"{across}ref": "paper"})
    figure.add_annotation(
        text=escape(chart.limit_name),
        showarrow=False,
        xanchor="right" if chart.listed and place > middle else "left",
        yanchor="bottom",
        **{along: place, across: 0, f"{across}ref": "paper"},
    )


def _add_curves(figure: Any, chart: Chart) -> None:
    """Add straight pieces on two logarithmic axes, each with its name at its outer end."""
    for curve in chart.curves:
        points = list(zip(curve.x, curve.y, strict=True))
        for (x0, y0), (x1, y1) in pairwise(points):
            figure.add_shape(type="line", line=_DASHED, x0=x0, y0=y0, x1=x1, y1=y1, layer="below")
        rising = curve.y[-1] > curve.y[0]
        end = 0 if rising else -1
        figure.add_annotation(
            text=escape(curve.name),
            showarrow=False,
            x=math.log10(curve.x[end]),
            y=math.log10(curve.y[end]),
            xanchor="left" if rising else "right",
            yanchor="top" if rising else "bottom",
        )


def _legend_rows(chart: Chart) -> int:
    """Rows that the legend takes in a chart of half the page's width."""
    if chart.names_itself:
        return 0
    if chart.listed:
        return math.ceil(len(chart.series) / 2) + 1
    widths = (_LEGEND_KEY_PX + _LEGEND_LETTER_PX * len(s.name) for s in chart.series)
    return math.ceil(sum(widths) / _LEGEND_WIDTH_PX)


def _escaped(x: float | str) -> float | str:
    return escape(x) if isinstance(x, str) else x
