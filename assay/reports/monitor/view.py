"""Lines of a snapshot for a screen of a given size, with what matters least left out first."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.text import Text

from assay.reports.monitor.cells import RUNNING, STARTING, CellRow
from assay.reports.monitor.cells_table import cells_table, time_words, tone
from assay.reports.monitor.eta import Remaining
from assay.reports.monitor.snapshot import Snapshot
from assay.reports.monitor.state import LossCurve
from assay.reports.monitor.text_curves import ASCII_MARKS, draw
from assay.reports.numerals import DASH, counted, number, size_in_bytes

STYLES = ("cyan", "yellow", "green", "magenta", "blue", "red", "bright_cyan", "bright_yellow")
_TALLEST, _SMALLEST = 14, 4  # lines of curves
_AROUND_CURVES = 5  # an empty line, the title, the axis and its values, the legend
_AROUND_ROWS = 3  # an empty line, the names of columns, the number of rows left out
_FEW_ROWS = 3  # that are shown before any curve
_MOST_FAILURES, _MOST_NEXT = 4, 4
_NAMES = {
    "peak_bytes": "memory",
    "utilisation": "utilisation",
    "power_w": "power",
    "temperature_c": "temperature",
    "sm_clock_mhz": "clock",
}
_LABEL = 11  # characters
_REPLACED = "\N{REPLACEMENT CHARACTER}"
_ASCII = str.maketrans({DASH: "-", "°": " ", _REPLACED: "?"})  # of the same length


def view(snapshot: Snapshot, *, width: int, height: int | None, plain: bool) -> list[Text]:
    """Lines of `width` characters and, where a height is given, no more than so many.

    `plain` is ASCII alone. Room that is left is that of the curves.
    """
    above = list(_summary(snapshot, width))
    below = list(_failures(snapshot, width, most_lines=None if height is None else 2))
    charts = [(title, curves) for title, curves in _charts(snapshot) if curves]
    rows, tallest = None, _TALLEST
    if height is not None:
        room = height - len(above) - len(below) - _AROUND_ROWS
        least = _SMALLEST + _AROUND_CURVES
        charts = charts[: max((room - min(len(snapshot.cells), _FEW_ROWS)) // least, 0)]
        rows = max(room - len(charts) * least, 1)
        spare = room - min(len(snapshot.cells), rows)
        tallest = min(spare // max(len(charts), 1) - _AROUND_CURVES, _TALLEST)
    lines = [*above, *cells_table(snapshot, width, rows)]
    for title, curves in charts:
        lines += _chart(title, curves, width=width, height=tallest, plain=plain)
    if height is not None:
        lines = lines[: height - len(below)]
    lines = [_safe(line, plain) for line in (*lines, *below)][:height]
    for line in lines:
        line.truncate(width, overflow="crop" if plain else "ellipsis")
        line.no_wrap = True
    return lines


def _summary(snapshot: Snapshot, width: int) -> Iterator[Text]:
    state = Text(f"{snapshot.study} {snapshot.run}: ", style="bold")
    state.append(snapshot.state, style=tone(snapshot.state))
    if snapshot.elapsed_s is not None:
        took = "for" if snapshot.state == RUNNING else "after"
        state.append(f" {took} {time_words(snapshot.elapsed_s)}")
    yield state
    if snapshot.state_reason:
        yield from map(Text, wrap(snapshot.state_reason, width))
    ended = sum(row.state == "ended" for row in snapshot.cells)
    words = f"{ended} of {counted(len(snapshot.cells), 'cell')} ended"
    if snapshot.at_work:
        words += f"; all of them: {_eta(snapshot.remaining)}"
    yield from _labelled("study", words, width)
    at_work = [row for row in snapshot.cells if row.state in (RUNNING, STARTING)]
    for row in at_work:
        yield from _cell_at_work(row, width)
    if snapshot.next_cells:
        more = len(snapshot.next_cells) - _MOST_NEXT
        names = ", ".join(snapshot.next_cells[:_MOST_NEXT])
        yield from _labelled("next", names + (f" and {more} more" if more > 0 else ""), width)
    if snapshot.shown:
        yield from _labelled("device", _readings(snapshot), width)


def _cell_at_work(row: CellRow, width: int) -> Iterator[Text]:
    name = f"{row.arm} seed {row.seed}"
    if row.state == STARTING or row.step is None:
        yield from _labelled("now", f"{name} is starting; it has not reported yet", width)
        return
    yield from _labelled("now", f"{name}: {_eta(row.remaining)}", width)
    last = (
        f"{row.val_loss:.4f} at step {row.val_step:,}" if row.val_loss is not None else "none yet"
    )
    due = [f"last {last}"]
    if row.next_evaluation:
        due.append(f"next at step {row.next_evaluation:,}{_in(row, row.next_evaluation)}")
    if row.next_save:
        due.append(f"saved next at step {row.next_save:,}{_in(row, row.next_save)}")
    yield from _labelled("evaluation", "; ".join(due), width)


def _in(row: CellRow, step: int) -> str:
    if row.seconds_per_step is None or row.step is None:
        return ""
    return f" (in about {time_words((step - row.step) * row.seconds_per_step)})"


def _eta(remaining: Remaining) -> str:
    if remaining.seconds is None:
        return f"ETA unknown, {remaining.basis}"
    return f"ETA {time_words(remaining.seconds)} (by {remaining.basis})"


def _readings(snapshot: Snapshot) -> str:
    known = []
    for r in snapshot.readings:
        if r.value is not None:
            in_bytes = r.unit == "B"
            words = size_in_bytes(int(r.value)) if in_bytes else f"{number(r.value)} {r.unit}"
            known.append(f"{_NAMES[r.name]} {words}")
    reasons: dict[str, list[str]] = {}
    for reading in snapshot.readings:
        if reading.reason:
            reasons.setdefault(reading.reason, []).append(_NAMES[reading.name])
    absent = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
    return "; ".join([f"{snapshot.device or 'unknown'}", *known, *absent])


def _failures(snapshot: Snapshot, width: int, *, most_lines: int | None) -> Iterator[Text]:
    """Outcomes that are not ok, and why; lines begin with the status, of each so many at most."""
    for failure in snapshot.failures[:_MOST_FAILURES]:
        words = f"{failure.arm} seed {failure.seed}, {failure.metric}: {failure.reason}"
        lines = wrap(f"{failure.status}: {words}", width, subsequent_indent="  ")[:most_lines]
        for number_of_line, line in enumerate(lines):
            text = Text(line)
            if number_of_line == 0:
                text.stylize(tone(failure.status), 0, len(failure.status))
            yield text
    more = len(snapshot.failures) - _MOST_FAILURES
    if more > 0:
        yield Text(f"and {more} more that are not ok; `assay report` shows all")


def _charts(snapshot: Snapshot) -> list[tuple[str, list[LossCurve]]]:
    training = [snapshot.training] if snapshot.training else []
    return [("validation loss (nats)", snapshot.validation), ("training loss (nats)", training)]


def _chart(
    title: str, curves: Sequence[LossCurve], *, width: int, height: int, plain: bool
) -> list[Text]:
    """A title, the curves and their legend, in lines that end before the width does."""
    lines = [Text(""), Text(title, style="bold")]
    lines += draw(curves, STYLES, width=width, height=height, plain=plain)
    legend = Text("")
    for index, curve in enumerate(curves):
        mark = (
            ASCII_MARKS[index % len(ASCII_MARKS)] if plain else "\N{BOX DRAWINGS HEAVY HORIZONTAL}"
        )
        entry = Text(f"{mark} ", style=STYLES[index % len(STYLES)])
        entry.append(f"{curve.name}  ", style="default")
        if legend and legend.cell_len + entry.cell_len > width:
            lines.append(legend)
            legend = Text("")
        legend.append_text(entry)
    return [*lines, legend]


def _labelled(label: str, words: str, width: int) -> Iterator[Text]:
    """A label and words beside it, in as many lines as they need."""
    for line in wrap(words, max(width - _LABEL, 20)):
        text = Text(f"{label:<{_LABEL}}", style="dim")
        text.append(line, style="not dim")
        yield text
        label = ""


def _safe(line: Text, plain: bool) -> Text:
    """The line without any character that a terminal acts on; in ASCII if it must be."""
    shown = "".join(c if c.isprintable() else _REPLACED for c in line.plain)
    if plain:
        shown = shown.translate(_ASCII).encode("ascii", "replace").decode()
    line.plain = shown
    return line
