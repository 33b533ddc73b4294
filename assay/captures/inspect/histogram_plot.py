"""Histograms as outlines in SVG, several in one frame, with a curve to hold them against."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from assay.captures.inspect.heat_map import WIDTH
from assay.reports.style import DASHES, PALETTE

_HEIGHT = 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 20, 30, 46
_LETTER = 7.6
_TOPS = (0.04, 0.08, 0.2, 0.4, 0.6, 0.8, 1.0)  # of a linear axis: quarters of them are short
_STROKES = {"-": "", "--": "7 4", ":": "2 3", "-.": "8 3 2 3"}


@dataclass(frozen=True, kw_only=True)
class StepLine:
    """Shares of one histogram, bin after bin."""

    name: str
    shares: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class HistogramPlot:
    """Histograms with the same bins, from `low` on, each `width` wide."""

    low: float
    width: float
    outlines: tuple[StepLine, ...]
    ticks: tuple[tuple[float, str], ...]
    x_label: str
    log_floor: float | None = None  # a logarithmic axis of shares down to here; None is linear
    reference: StepLine | None = None  # drawn quietly behind
    y_label: str = "share of the numbers"


def draw(found: HistogramPlot, *, label: str) -> str:
    """The SVG element; `label` is what a screen reader says."""
    highest = _highest(found)
    parts = [*_grid(found, highest), *_legend(found)]
    if found.reference:
        path = _path(found, found.reference.shares, highest)
        parts.append(f'<path class="curve quiet" d="{path}"/>')
    for index, outline in enumerate(found.outlines):
        path = _path(found, outline.shares, highest)
        parts.append(f'<path class="curve" {_stroke(index)} d="{path}"/>')
    return (
        f'<svg class="drawing" viewBox="0 0 {WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _bins(found: HistogramPlot) -> int:
    return max(len(outline.shares) for outline in found.outlines)


def _x(found: HistogramPlot, value: float) -> float:
    share = (value - found.low) / (found.width * _bins(found))
    return _LEFT + share * (WIDTH - _LEFT - _RIGHT)


def _y(found: HistogramPlot, share: float, highest: float) -> float:
    room = _HEIGHT - _TOP - _BOTTOM
    if found.log_floor is None:
        return _TOP + room * (1 - share / highest)
    floor = math.log10(found.log_floor)
    value = math.log10(max(share, found.log_floor))
    return _TOP + room * (1 - (value - floor) / (math.log10(highest) - floor))


def _highest(found: HistogramPlot) -> float:
    top = max((share for outline in found.outlines for share in outline.shares), default=0.0)
    if found.reference:
        top = max(top, *found.reference.shares)
    if found.log_floor is not None:
        return max(1.0, top)
    return next((each for each in _TOPS if each >= top), top)


def _path(found: HistogramPlot, shares: Sequence[float], highest: float) -> str:
    """Steps over the bins, from the axis and back to it; empty ends are left out."""
    filled = [i for i, share in enumerate(shares) if share > 0]
    if not filled:
        return ""
    first, last = filled[0], filled[-1]
    ground = _y(found, 0.0, highest)
    drawn = [f"M{_x(found, found.low + first * found.width):.1f} {ground:.1f}"]
    for i in range(first, last + 1):
        end = _x(found, found.low + (i + 1) * found.width)
        drawn.append(f"V{_y(found, shares[i], highest):.1f}H{end:.1f}")
    return "".join((*drawn, f"V{ground:.1f}"))


def _grid(found: HistogramPlot, highest: float) -> list[str]:
    lines = []
    right = WIDTH - _RIGHT
    for share, text in _shares(found, highest):
        y = _y(found, share, highest)
        lines.append(f'<path class="rule" d="M{_LEFT} {y:.1f}H{right}"/>')
        lines.append(f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    ground = _HEIGHT - _BOTTOM
    for value, text in found.ticks:
        x = _x(found, value)
        lines.append(f'<path class="rule" d="M{x:.1f} {ground}v4"/>')
        place = f'x="{x:.1f}" y="{ground + 17}" text-anchor="middle"'
        lines.append(f"<text {place}>{escape(text)}</text>")
    middle = (_LEFT + right) / 2
    lines.append(
        f'<text x="{middle:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(found.x_label)}'
        "</text>"
    )
    along = f'transform="translate(12 {(_TOP + ground) / 2:.1f}) rotate(-90)"'
    lines.append(f'<text {along} text-anchor="middle">{escape(found.y_label)}</text>')
    return lines


def _shares(found: HistogramPlot, highest: float) -> list[tuple[float, str]]:
    if found.log_floor is None:
        return [(highest * i / 4, f"{highest * i / 4:.3g}") for i in range(5)]
    low = round(math.log10(found.log_floor))
    powers = range(low, 1, 2)
    return [(10.0**power, "1" if power == 0 else f"10{superscript(power)}") for power in powers]


def _legend(found: HistogramPlot) -> list[str]:
    drawn, x = [], float(_LEFT)
    named = [(outline.name, _stroke(i)) for i, outline in enumerate(found.outlines)]
    for name, stroke in named:
        drawn.append(f'<path class="curve" {stroke} d="M{x:.1f} 13h18"/>')
        drawn.append(f'<text x="{x + 23:.1f}" y="17">{escape(name)}</text>')
        x += 23 + _LETTER * len(name) + 16
    if found.reference:
        drawn.append(f'<path class="curve quiet" d="M{x:.1f} 13h18"/>')
        drawn.append(f'<text x="{x + 23:.1f}" y="17">{escape(found.reference.name)}</text>')
    return drawn


def _stroke(index: int) -> str:
    """Colour and dash, as the report's charts tell series apart."""
    dash = _STROKES[DASHES[index % len(DASHES)][1]]
    return f'stroke="{PALETTE[index % len(PALETTE)]}"' + (
        f' stroke-dasharray="{dash}"' if dash else ""
    )


def superscript(power: int) -> str:
    """A whole number as an exponent."""
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
