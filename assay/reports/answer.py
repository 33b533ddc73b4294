"""The answer of a run: one to three lines that a person can act on, from its records alone.

    result = answer(records, run=run, stages=stages)    # run and stages as Contents has them
    result.word     PASS, FAIL or INCOMPLETE
    result.lines    what failed first, then what is incomplete, then speeds, else what passed
    result.brief    the first three of them, and how many more there are; also str(result)

Records of a run that was read with `load_records` are enough; with `run` a failure has the command
that repeats it, with `stages` a stage that never began is seen. The answer for measurements that
belong to no run is `check_answer` in assay/records/check_answer.py.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from textwrap import shorten

from assay.laws.curves import DECODE, MEASURING
from assay.records.check_answer import (
    FAIL,
    INCOMPLETE,
    NOT_RUN,
    PASS,
    Answer,
    Repeat,
    check_answer,
    failure_text,
    not_run,
)
from assay.records.explanation import probe_of
from assay.records.foreign_text import visible
from assay.records.schema import (
    CELL_SECONDS,
    MODEL_CACHE_BYTES,
    MODEL_PARAMETERS,
    MODEL_SECONDS,
    MODELS,
    Measurement,
    Record,
    Run,
)
from assay.records.verdicts import (
    CHECKING,
    SUITES,
    is_gap,
    is_unbelievable,
    is_verdict,
    is_wrong,
    skipped_cells,
    timed_out,
    was_held,
)
from assay.reports.contents import UNFINISHED, Stage
from assay.reports.headlines import comparisons, noises, replays, trainings
from assay.reports.model_headlines import cache_costs, scores, single_trainings, unread_caches
from assay.reports.numerals import counted
from assay.reports.run_tables import outcomes
from assay.reports.run_verdict import failures, is_check, judge
from assay.reports.speed_rows import measuring_stages, speed_rows
from assay.reports.unchecked import refuse_unchecked

_MODEL_SIZES = (MODEL_PARAMETERS, MODEL_CACHE_BYTES, MODEL_SECONDS)
_CAPTURED = "_captured-"  # in the name of a workload of a store's inputs
_COUNTED = (*CHECKING, *MEASURING)  # stages whose lines say of how many workloads they are
_LAYERS = "layers"  # the stage whose subjects `assay check` does not take


def answer(
    records: Sequence[Record], *, run: Run | None = None, stages: Sequence[Stage] = ()
) -> Answer:
    """The answer of one run; a speed that no passed check backs is not told."""
    idle, late = skipped_cells(records), timed_out(records)
    records = refuse_unchecked(records)
    checks = [*_suites(records, run), *_checks(records, run), *_models(records), *_doubted(records)]
    wrong = [each for each in checks if each.word == FAIL]
    failing = {each.name for each in wrong}
    passed = _first_of_each(each for each in checks if each.word == PASS)
    lacking = [each for each in checks if each.word == INCOMPLETE and each.name not in late]
    lacking += [not_run(each, reason) for each, reason in late.items() if each not in failing]
    refused = [e for e in lacking if e.lines[0].startswith(NOT_RUN) and e.name not in late]
    lacking = [each for each in lacking if each not in refused]
    # What is wrong is not timed either, which needs no line.
    refused = [each for each in refused if each.name not in failing]
    # Other lines say of how many workloads a check or a time is, and what was not run.
    named = bool(wrong or lacking or refused)
    idle = [s for s in idle if s.stage not in _COUNTED or (s.is_all and not named)]
    if not passed:  # else it is told last: of several, some may be for another device
        lacking, refused = [*lacking, *refused], []
    check = is_check(run)
    tone, words = judge(stages, check=check) if stages else ("", "")
    name = run.study if run else "run"
    # What is incomplete has its line already; what failed beside it has none.
    if tone == "failed" and not wrong and (not lacking or failures(stages, check=check)):
        wrong = [_other_failure(name, records, words)]
    unread, no_cache = unread_caches(records)
    if not wrong:
        absent = [str(each) for each in idle if each.is_all] or [unread] * no_cache
        absent = absent or [words] * (tone == UNFINISHED and not lacking)
        lines = tuple(f"{INCOMPLETE}  {name}: {text}" for text in absent)
        lacking += [Answer(word=INCOMPLETE, lines=lines)] if lines else []
    measured = [
        *_speeds(records, without=failing),
        *noises(records),
        *replays(records),
        *trainings(records),
        *single_trainings(records),
        *scores(records),
        *cache_costs(records),
    ]
    failing |= {each.name for each in wrong}
    partly = [f"{name}: {each}" for each in idle if wrong or not each.is_all]
    partly += [f"{name}: {unread}"] if unread and (wrong or not no_cache) else []
    first = [*_lines((*wrong, *lacking)), *partly]
    last = measured or _lines([each for each in passed if each.name not in failing])
    lines = [*first, *last, *_lines(refused)] or [f"{PASS}  {name}: {_cells(records)}"]
    word = FAIL if wrong else INCOMPLETE if lacking else PASS
    return Answer(word=word, lines=tuple(map(visible, lines)))


def _speeds(records: Sequence[Record], *, without: set[str]) -> Iterator[str]:
    """Comparisons of subjects with the baseline, but for some: one that is wrong has no speed."""
    for stage in measuring_stages(records):
        yield from comparisons(speed_rows(stage, records), without=without)


def _first_of_each(answers: Iterable[Answer]) -> list[Answer]:
    """Of each implementation its first answer: on the cases of a suite, where it has been there."""
    first: dict[str, Answer] = {}
    for each in answers:
        first.setdefault(each.name, each)
    return list(first.values())


def _lines(answers: Sequence[Answer]) -> list[str]:
    return [line for each in answers for line in each.lines]


def _suites(records: Sequence[Record], run: Run | None) -> Iterator[Answer]:
    """Of each implementation, on the cases of a suite."""
    budget = (run.config if run else {}).get("SUITE_BUDGET_S", "")
    for subject, own in _by_subject([r for r in records if r.stage in SUITES]).items():
        yield check_answer(
            subject,
            own,
            repeat=_repeat(run, subject, own[0].stage),
            budget_s=float(budget) if budget.isdigit() else None,
        )


def _checks(records: Sequence[Record], run: Run | None) -> Iterator[Answer]:
    """Of each implementation, on workloads that were named or are timed."""
    named = [r for r in records if is_verdict(r) and r.stage not in (*SUITES, MODELS)]
    for subject, own in _by_subject(named).items():
        if wrong := [r for r in own if r.status == "failed" or _ends_check(r, run)]:
            text = failure_text(wrong, repeat=_repeat(run, subject, wrong[0].stage))
            yield Answer(word=FAIL, lines=(f"{FAIL}  {subject}: {text}",), name=subject)
            continue
        if held := next(filter(was_held, own), None):
            text = shorten(held.reason or "", 160)
            yield Answer(word=INCOMPLETE, lines=(f"{INCOMPLETE}  {subject}: {text}",), name=subject)
            continue
        asked = {record.cell for record in own}
        passed = {record.cell for record in own if record.status == "ok"}
        if not passed:
            yield not_run(subject, own[0].reason or "")
            continue
        count = f"{len(passed):,} of {counted(len(asked), 'workload')}"
        yield Answer(word=PASS, lines=(f"{PASS}  {subject}: {count}",), name=subject)


def _ends_check(record: Record, run: Run | None) -> bool:
    """True where something is wrong; memory that does not suffice is a result like others where
    costs are measured, unless all that was asked for is a check."""
    return is_wrong(record) and (record.stage not in MEASURING or is_check(run))


def _doubted(records: Sequence[Record]) -> Iterator[Answer]:
    """Of each subject with a number that cannot be true, for which the exit code is 1 too."""
    for subject, own in _by_subject(list(filter(is_unbelievable, records))).items():
        places = counted(len({record.cell for record in own}), "cell")
        text = f"{shorten(own[0].reason or '', 160)}; {own[0].metric}, in {places}"
        yield Answer(word=FAIL, lines=(f"{FAIL}  {subject}: {text}",), name=subject)


def _models(records: Sequence[Record]) -> Iterator[Answer]:
    """Of each model that fails a gate; of those that pass all, together."""
    models = _by_subject([r for r in records if r.stage == MODELS])
    failing = {n: w for n, own in models.items() if (w := [r for r in own if is_wrong(r)])}
    for name, wrong in failing.items():
        gates = ", ".join(dict.fromkeys(record.metric for record in wrong))
        repeat = f"; repeat: assay check --models {shlex.quote(name)}"
        yield Answer(word=FAIL, lines=(f"{FAIL}  {name}: {gates}: {wrong[0].reason}{repeat}",))
    if models and not failing:
        gates = [r for own in models.values() for r in own if r.metric not in _MODEL_SIZES]
        passed, gaps = sum(r.status == "ok" for r in gates), sum(map(is_gap, gates))
        unseen = f", {gaps:,} not examined (below)" if gaps else ""
        text = f"{passed:,} of {passed + gaps:,} gates{unseen}"
        yield Answer(word=PASS, lines=(f"{PASS}  {counted(len(models), 'model')}: {text}",))


def _other_failure(name: str, records: Sequence[Record], words: str) -> Answer:
    """Of a run in which something failed that is no check."""
    rows = [[entry.text for entry in row] for row in outcomes(records).entries]
    text, subject = words, ""
    if rows:  # the worst is the first
        status, stage, cell, subject, reason = rows[0]
        text = f"{words}; {subject or stage} is {status} at {cell}: {shorten(reason, 160)}"
    return Answer(word=FAIL, lines=(f"{FAIL}  {name}: {text}",), name=subject)


def _cells(records: Sequence[Record]) -> str:
    ended = [record for record in records if record.metric == CELL_SECONDS]
    ok = sum(record.status == "ok" for record in ended)
    return f"{ok:,} of {counted(len(ended), 'cell')} ok"


def _by_subject(records: Sequence[Record]) -> Mapping[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record.subject:
            groups.setdefault(record.subject, []).append(record)
    return groups


def _repeat(run: Run | None, subject: str, stage: str) -> Repeat | None:
    """The command that repeats a failure of `subject` in `stage`, with its file as it was typed."""
    if run is None or not run.sessions:
        return None
    command = run.sessions[-1].command
    name = _kernel_name(run, subject) if stage in (DECODE, SUITES[1]) else _file_name(run, subject)
    where = [*_device_flag(run), *(part for path in run.plugins for part in ("--plugins", path))]

    def repeat(failure: Measurement) -> str:
        case = failure.workload.name if failure.workload else ""
        if _CAPTURED in case or stage == _LAYERS:  # inputs or a layer, which the command names
            return shlex.join(command)
        probe = probe_of(failure.metric)
        words = ["assay", "check", name, *(["--probe", probe] if probe else [])]
        return shlex.join([*words, *(["--workload", case] if case else []), *where])

    return repeat


def _file_name(run: Run, subject: str) -> str:
    """An implementation as its list in the run's configuration names it."""
    typed = _listed(run, "IMPLEMENTATIONS")
    return next((entry for entry in typed if PurePath(entry).stem == subject), subject)


def _kernel_name(run: Run, subject: str) -> str:
    """A decode kernel as an argument: a user's file by its path, with its layout if it has one."""
    layout, _, file = subject.partition(":")
    for entry in _listed(run, "DECODERS"):
        given, _, path = entry.rpartition(":")
        if PurePath(path).stem == file and given in ("", layout):
            return f"{DECODE}/{entry}"
    return f"{DECODE}/{subject}"


def _listed(run: Run, symbol: str) -> list[str]:
    return [entry for entry in run.config.get(symbol, "").strip('"').split(",") if entry]


def _device_flag(run: Run) -> list[str]:
    """The flag for the device that a run asked for; none where it takes what there is."""
    if run.config.get("DEVICE_CPU") == "y":
        return ["--device", "cpu"]
    if run.config.get("DEVICE_CUDA") == "y":
        index = run.config.get("DEVICE_INDEX", "0")
        return ["--device", "cuda" if index == "0" else f"cuda:{index}"]
    return []
