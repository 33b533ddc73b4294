"""The table of a snapshot: a line for each arm and seed, as many columns as fit the screen."""

from collections.abc import Callable, Sequence

from rich.text import Text

from assay.reports.monitor.cells import INTERRUPTED, RUNNING, STARTING, CellRow
from assay.reports.monitor.snapshot import Snapshot
from assay.reports.numerals import DASH, counted, size_in_bytes
from assay.reports.style import TERMINAL_TONES


def cells_table(snapshot: Snapshot, width: int, most_rows: int | None) -> list[Text]:
    """A line for each cell and one of names above; columns that nobody has are left out, and the
    last ones that do not fit; rows beyond `most_rows` are those furthest from what is at work."""
    rows = snapshot.cells
    columns = {name: [column(row) for row in rows] for name, column in _COLUMNS.items()}
    columns = {name: texts for name, texts in columns.items() if set(texts) - {DASH}}
    shown = _window([row.state in (RUNNING, STARTING) for row in rows], most_rows)
    widths = {n: max(len(n), *(len(texts[i]) for i in shown)) for n, texts in columns.items()}
    for name in _SPARE:
        if sum(widths.values()) + 2 * (len(widths) - 1) > width:
            widths.pop(name, None)
    lines = [Text(""), Text("  ".join(_padded(n, n, w) for n, w in widths.items()), style="dim")]
    for index in shown:
        texts = [_padded(name, columns[name][index], w) for name, w in widths.items()]
        lines.append(Text("  ".join(texts), style=tone(rows[index].state)))
    if len(shown) < len(rows):
        lines.append(Text(f"and {counted(len(rows) - len(shown), 'cell')} more", style="dim"))
    return lines if rows else []


def _window(at_work: Sequence[bool], most_rows: int | None) -> range:
    """Places of the rows to show: around the first that is at work, or the last ones."""
    count = len(at_work)
    if most_rows is None or count <= most_rows:
        return range(count)
    centre = at_work.index(True) if True in at_work else count
    start = min(max(centre - most_rows // 2, 0), count - most_rows)
    return range(start, start + most_rows)


def _padded(name: str, text: str, width: int) -> str:
    return text.ljust(width) if name in ("arm", "state") else text.rjust(width)


def _loss(value: float | None) -> str:
    return DASH if value is None else f"{value:.4f}"


def _step(row: CellRow) -> str:
    if row.step is None:
        return DASH
    return f"{row.step:,}/{row.steps:,}" if row.steps is not None else f"{row.step:,}"


def _difference(row: CellRow) -> str:
    """The step is beside it where it is not the one of the validation loss."""
    if row.difference is None:
        return DASH
    at = "" if row.difference_step == row.val_step else f" at {row.difference_step:,}"
    return f"{row.difference:+.4f}{at}"


def tone(state: str) -> str:
    return {RUNNING: "bold", STARTING: "bold", INTERRUPTED: "yellow"}.get(
        state, TERMINAL_TONES.get(state, "")
    )


def time_words(seconds: float | None) -> str:
    """A time to about two digits, in the unit that people would use."""
    if seconds is None:
        return DASH
    for unit_s, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.{1 if seconds < 10 * unit_s else 0}f} {name}"
    return f"{seconds:.0f} s"


_COLUMNS: dict[str, Callable[[CellRow], str]] = {
    "arm": lambda row: row.arm,
    "seed": lambda row: str(row.seed),
    "state": lambda row: row.state,
    "step": _step,
    "train": lambda row: _loss(row.train_loss),
    "validation": lambda row: _loss(row.val_loss),
    "to baseline": _difference,
    "tokens/s": lambda row: DASH if row.tokens_per_s is None else f"{row.tokens_per_s:,.0f}",
    "of matmul": lambda row: DASH if row.share_of_matmul is None else f"{row.share_of_matmul:.0%}",
    "memory": lambda row: DASH if row.peak_bytes is None else size_in_bytes(int(row.peak_bytes)),
    "trained": lambda row: time_words(row.trained_s),
}
_SPARE = ("trained", "memory", "of matmul", "train", "state")
