"""Subjects of one process kept apart: what one of them changes for all is put back after its turn.

What a subject sets when it is loaded is its own: it holds in its turns, and in no others. Each
change is a remark in the results: a kernel that asks for one thread is timed with one thread, and
whoever reads its time has to know.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from assay import plugins
from assay.instruments import shared_state
from assay.instruments.shared_state import Setting
from assay.records.schema import SHARED_STATE, Measurement
from assay.subjects.outcome import Begin

_LOADED = "when it was loaded; restored for all others"
_CALLED = "when it was called; restored"
_LASTING = "which cannot be restored: what came later in its process ran with it"


def kept_apart(events: Iterator[Any]) -> Iterator[Any]:
    """Yield the events of a cell, with the state of its process put back before each, and at the
    end a remark on each subject that changed it. A Begin says whose turn follows."""
    state, subject = _SharedState(), ""
    while True:
        state.enter(subject)
        try:
            item = next(events)
        except StopIteration:
            break
        finally:
            state.leave(subject)
        if isinstance(item, Begin):
            subject = item.subject
        yield item
    yield from state.remarks()


class _SharedState:
    """The state as it was before the first subject, and what became of it in each one's turns."""

    def __init__(self) -> None:
        self._usual: dict[Setting, Any] = {}
        self._own: dict[str, dict[Setting, Any]] = {}  # by subject, once it is loaded
        self._changes: dict[str, dict[tuple[str, Setting], str]] = {}

    def enter(self, subject: str) -> None:
        """Set what the subject had set when it was loaded."""
        for setting, value in self._own.get(subject, {}).items():
            with suppress(Exception):  # such as a folder that is gone: its turn is without it
                setting.write(value)

    def leave(self, subject: str) -> None:
        """Put everything back. Before the first subject all that happens is ours."""
        now = shared_state.values_of(_settings())
        if not subject:
            self._usual = now
            return
        is_loaded = subject in self._own
        expected = self._usual | self._own.setdefault(subject, {})
        for setting, value in expected.items():
            if setting in now and now[setting] == value:
                continue
            after = now.get(setting, "something that cannot be read")
            self._note(subject, _CALLED if is_loaded else _LOADED, setting, value, after)
            if not is_loaded and setting.stays and setting in now:
                self._own[subject][setting] = after
        for setting, value in self._usual.items():
            if setting not in now or now[setting] != value:
                self._put_back(subject, setting, value, now.get(setting))
        self._usual = now | self._usual  # of a framework that was imported meanwhile

    def remarks(self) -> Iterator[Measurement]:
        """Remarks on what each subject changed."""
        for subject, changes in self._changes.items():
            by_time: dict[str, list[str]] = {}
            for (time, _), words in changes.items():
                by_time.setdefault(time, []).append(words)
            parts = [f"set {', '.join(words)} {time}" for time, words in by_time.items()]
            yield Measurement(
                subject=subject,
                metric=SHARED_STATE,
                value=None,
                unit="",
                reason="; ".join(parts),
                data={setting.name: words for (_, setting), words in changes.items()},
            )

    def _note(self, subject: str, time: str, setting: Setting, before: Any, after: Any) -> None:
        changes = self._changes.get(subject, {})
        if (time, setting) not in changes and (words := setting.change(before, after)):
            self._changes[subject] = {**changes, (time, setting): words}

    def _put_back(self, subject: str, setting: Setting, value: Any, now: Any) -> None:
        try:
            setting.write(value)
        except Exception:  # torch sets its interop threads once
            for time in (_LOADED, _CALLED):
                self._changes.get(subject, {}).pop((time, setting), None)
                self._own[subject].pop(setting, None)
            self._note(subject, _LASTING, setting, value, now)
            self._usual[setting] = now


def _settings() -> Iterator[Setting]:
    yield from shared_state.SETTINGS
    for name in _framework_modules():
        framework = sys.modules.get(name)  # that is not imported has no state yet
        yield from getattr(framework, "settings", tuple)()


@cache
def _framework_modules() -> tuple[str, ...]:
    listed = plugins.listing("frameworks").values()
    return tuple(plugins.module_name(plugin.path) for plugin in listed)
