"""A training run on the terminal: a snapshot drawn with tables and curves, again and again.

Text from records is foreign: it is never read as markup, and characters that a terminal would act
on are replaced.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from assay.reports.monitor.cells import RUNNING
from assay.reports.monitor.snapshot import Snapshot
from assay.reports.monitor.view import view
from assay.reports.monitor.watched_run import WatchedRun, find_run, require_training

REFRESH_S = 1.0
_LOOK_AT_SIZE_S = 0.1
_FILE_WIDTH = 120  # where nothing says how wide the reader's screen is


def snapshot_json(path: Path | None, results: Path) -> str:
    """The snapshot of a run as one JSON object."""
    import msgspec

    return msgspec.json.encode(_first_look(path, results)[1]).decode()


def show(path: Path | None, results: Path) -> None:
    """Show a run until it ends or Ctrl-C is pressed; one plain snapshot where nobody looks on."""
    try:
        _show(path, results)
    except KeyboardInterrupt:
        return  # that is how one leaves


def _show(path: Path | None, results: Path) -> None:
    screen = Console(emoji=False, markup=False, highlight=False)
    watched, snapshot = _first_look(path, results)
    if not screen.is_terminal or screen.is_dumb_terminal:
        width = get_terminal_size(fallback=(_FILE_WIDTH, 0)).columns
        for line in view(snapshot, width=width, height=None, plain=True):
            print(line.plain.rstrip())
        return
    if snapshot.state == RUNNING:
        snapshot = _follow(watched, snapshot, screen)
    screen.print(Group(*_fitting(snapshot, screen, whole=True)))


def _first_look(path: Path | None, results: Path) -> tuple[WatchedRun, Snapshot]:
    watched = WatchedRun(folder=find_run(path, results))
    snapshot = watched.look()
    require_training(watched)
    return watched, snapshot


def _follow(watched: WatchedRun, snapshot: Snapshot, screen: Console) -> Snapshot:
    """Show a run on the whole screen while it goes; returns its last snapshot."""
    with Live(console=screen, screen=True, auto_refresh=False, transient=True) as live:
        while snapshot.state == RUNNING:
            live.update(Group(*_fitting(snapshot, screen, whole=False)), refresh=True)
            _wait(screen)
            snapshot = watched.look()
    return snapshot


def _wait(screen: Console) -> None:
    """Until the next look is due, or the window has another size."""
    size, until = screen.size, time.monotonic() + REFRESH_S
    while time.monotonic() < until and screen.size == size:
        time.sleep(_LOOK_AT_SIZE_S)


def _fitting(snapshot: Snapshot, screen: Console, *, whole: bool) -> Sequence[Text]:
    plain = not (screen.encoding or "").lower().startswith("utf")
    height = None if whole else screen.height
    return view(snapshot, width=screen.width, height=height, plain=plain)
