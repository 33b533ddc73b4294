"""The tables of docs/results/public-kernels.md: `python gallery/page.py`.

Verdicts, limits, causes and smallest cases come from the records of the study (evidence), what is
true of each upstream from compared.json, which compare.py writes, and truth.toml, which people
write: whether it is sound, and words of which a right cause holds one.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from assay import plugins
from assay.host import CHECKOUT
from assay.records import explanation, verdicts
from assay.records.schema import Record
from assay.verify import evidence
from assay.verify import marked_tables as tables

HERE = Path(__file__).parent
PAGE = CHECKOUT / "docs/results/public-kernels.md"
# The study, its part in JAX, and what was checked again; of each wrapper the last counts.
EVIDENCE = ("gallery-cpu", "gallery-jax-cpu", "gallery-hkproj-cpu")
_EXPLANATIONS = 4  # in the table


def written(text: str, records: Sequence[Record]) -> str:
    """The page with every marked table made anew."""
    made = {"implementations": partial(implementations, records), "score": partial(score, records)}
    return tables.written(text, made)


def implementations(records: Sequence[Record]) -> str:
    """A row for each wrapper: upstream, verdict, limits, cause, smallest case, comparison."""
    compared = json.loads((HERE / "compared.json").read_text())
    head = ("wrapper", "upstream", "verdict", "likely causes, in the words of the check",
            "smallest case", "takes only", "float64 comparison")  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, own in _by_subject(records).items():
        shown = [explanation.shown_by for explanation in _explained(own)[:_EXPLANATIONS]]
        causes = "<br>".join(f"{n}. {_words(record)}" for n, record in enumerate(shown, 1))
        case = shown[0].workload.name if shown and shown[0].workload else ""
        cells = [f"[{name}](../../gallery/{name}.py)", _upstream(name), verdict(own), causes]
        cells += [f"`{case}`" if case else "", _limits(own), _counts(compared.get(name, {}))]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def score(records: Sequence[Record]) -> str:
    """Counts of verdicts and first causes that are right, as a table."""
    truth = tomllib.loads((HERE / "truth.toml").read_text())
    subjects = {name: own for name, own in _by_subject(records).items() if name in truth}
    wrong = [name for name in subjects if not truth[name]["sound"]]
    right = [name for name, own in subjects.items() if verdict(own) == _wanted(truth[name])]
    false = [name for name in subjects if name not in wrong and verdict(subjects[name]) == "FAILS"]
    named = [name for name in wrong if names_cause(subjects[name], truth[name]["cause"])]
    rows = {
        "verdict right": f"{len(right)} of {len(subjects)}",
        "cause right, of those that are wrong": f"{len(named)} of {len(wrong)}",
        "sound ones flagged": f"{len(false)} of {len(subjects) - len(wrong)}",
    }
    missed = sorted(set(subjects) - set(right)), sorted(set(wrong) - set(named))
    lines = ["| what | score | not so |", "|---|---|---|"]
    for (what, text), names in zip(rows.items(), (*missed, false), strict=True):
        lines.append(f"| {what} | {text} | {', '.join(names)} |")
    return "\n".join(lines) + "\n"


def verdict(own: Sequence[Record]) -> str:
    """One word for all probes of a wrapper."""
    judged = [r for r in own if r.metric not in verdicts.NO_VERDICTS]
    wrong = [r for r in judged if r.status in verdicts.WRONG]
    if wrong:
        return "FAILS" if not all(verdicts.cases_run(r) for r in wrong) else "incomplete"
    return "holds" if any(r.status == "ok" for r in judged) else "not judged"


def names_cause(own: Sequence[Record], words: Sequence[str]) -> bool:
    """True where the first explanation holds one of the words."""
    first = next((explanation.shown_by for explanation in _explained(own)), None)
    text = f"{first.cause or ''} {first.reason or ''}" if first else ""
    return any(word in text for word in words)


def _words(shown: Record) -> str:
    """The cause; beside a mere condition, or without one, what was seen."""
    seen = (shown.reason or "").partition("; smallest failing case")[0]
    if not shown.cause or shown.cause.startswith("it fails only"):
        return "; ".join(filter(None, (seen, shown.cause)))
    return shown.cause


def _wanted(truth: Mapping[str, Any]) -> str:
    return "holds" if truth["sound"] else "FAILS"


def _by_subject(records: Sequence[Record]) -> dict[str, list[Record]]:
    subjects: dict[str, list[Record]] = {}
    for record in records:
        if record.stage == "suite" and record.unit != "s":
            subjects.setdefault(record.subject, []).append(record)
    return dict(sorted(subjects.items()))


def _explained(own: Sequence[Record]) -> list[explanation.Explanation]:
    wrong = [r for r in own if verdicts.is_wrong(r) and not verdicts.cases_run(r)]
    return explanation.explained(wrong)


def _limits(own: Sequence[Record]) -> str:
    stated = (r.reason for r in own if r.metric == verdicts.LIMITS and r.status == "ok")
    reason = next(stated, "") or ""
    return reason.partition("; to declare it")[0].removeprefix("it takes ").replace(" only", "")


def _upstream(name: str) -> str:
    stated = plugins.find("sequence", name, [HERE]).literals["UPSTREAM"]
    if "package" in stated:
        return f"{stated['package']}, installed"
    url = f"https://github.com/{stated['repository']}/tree/{stated['commit']}"
    return f"[{stated['repository']}]({url}) {stated['commit'][:10]}"


def _counts(outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    kinds = {"right": 0, "wrong": 0, "raises": 0}
    for words, outcome in outcomes.items():
        if (kind := words.split(":")[0].split()[0]) in kinds:
            kinds[kind] += outcome["cases"]
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)


def kept() -> list[Record]:
    """The records of all runs of the study that are kept; of a subject, those of the last run."""
    subjects: dict[str, list[Record]] = {}
    for name in EVIDENCE:
        subjects |= _by_subject(evidence.load(name))
    return [record for own in subjects.values() for record in own]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), kept()))
