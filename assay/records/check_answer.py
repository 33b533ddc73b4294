"""The answer of a check: PASS, FAIL or INCOMPLETE for one implementation, in one line.

    answer = check_answer("my", measurements, repeat=lambda failure: "assay check my.py ...")
    answer.word     PASS, FAIL or INCOMPLETE
    answer.lines    ("PASS  my: 11 probes, 442 of 442 cases",)

Lines under the line of a PASS, a part of it, say how far the check reached, and what it did not.

Cases are counted of those that were asked for, also where some were refused or not run. The answer
of a whole run, with its speeds, is in assay/reports/answer.py.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import fill, shorten
from typing import Any

from assay.records.explanation import brief_cause, explained, names_mistake
from assay.records.schema import CELL_METRICS, Measurement
from assay.records.verdicts import (
    BESIDE,
    CONDITIONS,
    NO_VERDICTS,
    REACH,
    WRONG,
    cases_run,
    count_cases,
    was_held,
)

PASS, FAIL, INCOMPLETE = "PASS", "FAIL", "INCOMPLETE"
NOT_RUN = "NOT RUN"  # begins the line of an implementation of which nothing could be judged
MOST_LINES = 3
_MOST_LETTERS = 160  # of a reason, which may be an error message of another project

Repeat = Callable[[Measurement], str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A word for programs and lines for people, the most important first."""

    word: str
    lines: tuple[str, ...]
    name: str = ""  # of the implementation, where it is about a single one

    @property
    def brief(self) -> tuple[str, ...]:
        """At most three lines, and how many more there are."""
        beyond = len(self.lines) - MOST_LINES
        more = (f"and {beyond:,} more below",) if beyond > 0 else ()
        return (*self.lines[:MOST_LINES], *more)

    def __str__(self) -> str:
        return "\n".join(self.brief)


def check_answer(
    name: str,
    measurements: Sequence[Measurement],
    *,
    repeat: Repeat | None = None,
    budget_s: float | None = None,
    add: str = "add --budget-s {}",
) -> Answer:
    """The answer for one implementation, from one measurement for each probe.

    `repeat` gives the command that repeats a failure; `budget_s` is the budget that cases had, and
    `add` says how to give more.
    """
    verdicts = [m for m in measurements if m.metric not in (*CELL_METRICS, *NO_VERDICTS)]
    wrong = [m for m in verdicts if m.status in WRONG and not cases_run(m)]
    if wrong:
        return _answer(FAIL, name, failure_text(wrong, repeat=repeat))
    ran, asked = (sum(each[i] for each in map(count_cases, verdicts)) for i in range(2))
    passed = [m for m in verdicts if m.status == "ok"]
    counts = f"{ran:,} of {asked:,} cases"
    if any(cases_run(m) for m in verdicts):
        limit = f" within a budget of {budget_s:g} s" if budget_s else ""
        advice = f"; {add.format(_enough_s(budget_s, ran, asked))}" if budget_s and ran else ""
        return _answer(INCOMPLETE, name, f"{counts}{limit}{advice}")
    if not passed:
        reason = next((m.reason for m in verdicts if m.reason), "no probe has a case for it")
        return not_run(name, reason)
    if held := [m for m in verdicts if was_held(m)]:
        text = f"{counts}; {', '.join(m.metric for m in held)} {shorten(held[0].reason or '', 160)}"
        return _answer(INCOMPLETE, name, text)
    probes = f"{len(passed)} probe{'' if len(passed) == 1 else 's'}"
    if len(passed) < len(verdicts):
        probes = f"{len(passed)} of {len(verdicts)} probes"
    noted = {m.metric for m in measurements if m.metric in BESIDE and m.status == "ok"}
    words = {CONDITIONS: "under conditions"}
    within = " and ".join(words.get(metric, "inside its limits") for metric in sorted(noted))
    reached = "".join(f"\n{reach_text(m.data)}" for m in measurements if m.metric == REACH)
    within = f", {within} (below)" if within else ""
    return _answer(PASS, name, f"{probes}, {counts}{within}{reached}")


def reach_text(data: dict[str, Any]) -> str:
    """Lines of 80 columns that say how far a check reached, and what it did not."""
    lengths: dict[int, list[str]] = {}  # the passes that have each
    for name, length in data.get("tokens", {}).items():
        lengths.setdefault(length, []).append(name)
    parts = [f"{length:,} tokens {', '.join(names)}" for length, names in lengths.items()]
    if "keys" in data:  # of a cache
        parts = [f"{data['keys']:,} keys", f"{data['new_tokens']} new tokens"]
    heads = ", ".join(f"{heads}/{kv_heads}" for heads, kv_heads in data["heads"])
    parts += [f"batch {data['batch']}", f"heads {heads}", f"head dim {data['head_dim']}"]
    reached = "; ".join([*parts, ", ".join(data["dtypes"])])
    missing = ", ".join(["anything larger", *data["not_reached"]])
    lines = (f"reached, each by itself: {reached}", f"not reached: {missing}")
    indents = {"initial_indent": " " * 6, "subsequent_indent": " " * 8}
    return "\n".join(fill(line, 80, **indents) for line in lines)


def failure_text(failures: Sequence[Measurement], *, repeat: Repeat | None = None) -> str:
    """The mistake that explains most failures of one implementation, and how to repeat it; where
    no mistake is known, the failure that says most."""
    known = [each.shown_by for each in explained(failures)]
    shown = next((each for each in known if names_mistake(each.cause)), known[0])
    reason = re.split(r"; smallest failing case |; \d+ of \d+ cases ", shown.reason or "")[0]
    text = shorten(brief_cause(shown.cause) if shown.cause else reason, _MOST_LETTERS)
    return f"{text}; repeat: {repeat(shown)}" if repeat else text


def not_run(name: str, reason: str) -> Answer:
    """The answer for an implementation that was refused everywhere: neither right nor wrong."""
    line = f"{NOT_RUN}  {name}: {shorten(reason, _MOST_LETTERS)}"
    return Answer(word=INCOMPLETE, lines=(line,), name=name)


def _answer(word: str, name: str, text: str) -> Answer:
    return Answer(word=word, lines=(f"{word}  {name}: {text}",), name=name)


def _enough_s(budget_s: float, ran: int, asked: int) -> int:
    """A budget for all cases at the pace of those that ran, which may take twice their budget."""
    return math.ceil(2 * budget_s * asked / ran / 10) * 10
