"""Lines above the tables: how subjects compare with the baseline, and objections."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median

from assay.laws.noise import noise_of
from assay.laws.pairs import OTHER_CLOCK, PAIRED_METRICS, Ratio, mean_ratio
from assay.records.schema import MACHINE_LOAD, SHARED_STATE, Record
from assay.reports.numerals import counted, number, size_in_bytes
from assay.reports.ratios import baseline
from assay.reports.speed_rows import BACKWARD, FORWARD, TRAINING, Row
from assay.reports.table import workload_or_cell
from assay.reports.training_rows import PairedDifference, paired, trained_models
from assay.reports.unchecked import WITHHELD

_PASSES = {FORWARD: "forward", BACKWARD: "backward"}
_REPLAY_COUNT = "replayed_differences"
_REPLAY_LARGEST = "replayed_largest_difference"
_CLOCK = "sm_clock_mhz"
_MOST_DRIFT = 0.05
_MOST_NAMED = 4


def comparisons(rows: Sequence[Row], *, without: Collection[str] = ()) -> list[str]:
    """A sentence for each subject beside the baseline, but for those `without`: how much faster or
    slower, how sure, on how many of the workloads that were asked for; of a single subject, its
    time."""
    by_subject: dict[str, list[Row]] = {}
    for row in rows:
        by_subject.setdefault(row.subject, []).append(row)
    kept = {name: own for name, own in by_subject.items() if name not in without}
    if len(by_subject) == 1:
        return [line for own in kept.values() for line in _alone(own)]
    compared = {name: _ratios(own) for name, own in kept.items()}
    sentences = [_comparison(kept[name], own) for name, own in compared.items() if own]
    if sentences:
        return sentences
    # Frameworks with clocks of their own cannot be paired: the times themselves, and why.
    reasons = [ratio.reason or "" for row in rows for ratio in row.ratios.values()]
    clocks = [reason for reason in reasons if OTHER_CLOCK in reason]
    if not clocks:
        return []
    return [f"no ratio: {clocks[0]}", *(line for own in kept.values() for line in _alone(own))]


def replays(records: Sequence[Record]) -> list[str]:
    """A sentence for each subject whose outputs were compared with those of a captured model."""
    subjects: dict[str, dict[str, list[float]]] = {}
    for record in records:
        if record.metric in (_REPLAY_COUNT, _REPLAY_LARGEST) and record.value is not None:
            values = subjects.setdefault(record.subject, {_REPLAY_COUNT: [], _REPLAY_LARGEST: []})
            values[record.metric].append(record.value)
    return [
        _replay(subject, values[_REPLAY_COUNT], values[_REPLAY_LARGEST])
        for subject, values in subjects.items()
    ]


def noises(records: Sequence[Record]) -> list[str]:
    """A sentence for each subject that was compared with itself: how noisy the machine is."""
    sentences = []
    for noise in noise_of(records):
        alarms = f"{noise.alarms:,} of {noise.comparisons:,} comparisons are false alarms"
        effect = noise.cannot_judge or f"a slowdown of {noise.smallest_effect:.1%} would be seen"
        sentences.append(f"{noise.subject} against itself: {alarms}; {effect}; {noise.workload}")
    return sentences


def trainings(records: Sequence[Record]) -> list[str]:
    """A sentence for each model that was trained beside the first."""
    models = trained_models(records)
    pairs = (paired(model, models[0]) for model in models[1:])
    return [_training(pair) for pair in pairs if pair]


def warnings(
    rows: Sequence[Row], records: Sequence[Record], config: Mapping[str, str]
) -> list[str]:
    """Objections to the numbers of one stage, each kind once."""
    if not rows:
        return []
    records = [record for record in records if record.stage == rows[0].stage]
    return [
        *_withheld(records),
        *_suspects(rows),
        *_copies(rows, baseline(records, FORWARD)),
        *_drift(records),
        *_forward_slower(records),
        *_few_samples(records, config),
    ]


def shared_state(records: Sequence[Record]) -> list[str]:
    """A sentence for each subject that changed what all code of its process shares."""
    remarks = (record for record in records if record.metric == SHARED_STATE)
    return list(dict.fromkeys(f"{record.subject} {record.reason}" for record in remarks))


def busy_machine(records: Sequence[Record]) -> list[str]:
    """A sentence where more processes wanted a core than there are, by the busiest cell."""
    remarks = [record for record in records if record.metric == MACHINE_LOAD]
    worst = max(remarks, key=lambda record: record.value or 0.0, default=None)
    return [worst.reason] if worst and worst.reason else []


def _forward_slower(records: Sequence[Record]) -> list[str]:
    """Subjects whose forward pass alone took longer than forward and backward together."""
    medians = {(r.metric, r.subject, r.cell): r.value or 0.0 for r in records}
    slower: dict[str, list[str]] = {}
    for (metric, subject, cell), value in medians.items():
        if metric == FORWARD and 0.0 < medians.get((TRAINING, subject, cell), 0.0) < value:
            slower.setdefault(subject, []).append(cell)
    return [
        f"{subject}: forward alone took longer than forward and backward together, which cannot "
        f"be: noise ({_first_few(cells)}); time it again on a quieter machine"
        for subject, cells in slower.items()
    ]


def _training(pair: PairedDifference) -> str:
    start = f"{pair.model} against {pair.against}"
    if pair.mean is None:
        return f"{start}: not compared: {pair.reason}"
    half = f" ± {pair.half_width:.4f}" if pair.half_width is not None else ""
    seeds = counted(len(pair.by_seed), "seed")
    caveats = f" ({', '.join(pair.caveats)})" if pair.caveats else ""
    return f"{start} over {seeds}: {pair.mean:+.4f}{half} nats, {pair.verdict}{caveats}"


def _ratios(rows: Sequence[Row]) -> dict[str, list[Ratio]]:
    """The ratios of one subject for each pass that has some."""
    ratios = {
        metric: [own for row in rows if (own := row.ratios.get(metric)) and own.value is not None]
        for metric in _PASSES
    }
    return {metric: own for metric, own in ratios.items() if own}


def _comparison(rows: Sequence[Row], ratios: Mapping[str, Sequence[Ratio]]) -> str:
    """A subject's passes beside the baseline; how many workloads each is of stands with it where
    they differ, else at the end."""
    counts = {len(own) for own in ratios.values()}
    passes = [
        f"{_difference(own, against=not i)} {_PASSES[metric]}"
        + (f" on {_of_asked(len(own), rows)}" if len(counts) > 1 else "")
        for i, (metric, own) in enumerate(ratios.items())
    ]
    workloads = f", {_of_asked(*counts, rows)}" if len(counts) == 1 else ""
    mean = " (geometric mean)" if max(counts) > 1 else ""
    return f"{rows[0].subject}: {', '.join(passes)}; {_dtypes(rows)}{workloads}{mean}"


def _of_asked(count: int, rows: Sequence[Row]) -> str:
    asked = counted(len(rows), "workload")
    return f"{count:,} of {asked}" if count < len(rows) else asked


def _difference(ratios: Sequence[Ratio], *, against: bool) -> str:
    """Ratios of time as a factor of speed, by their geometric mean, with its 95 % interval."""
    mean = mean_ratio(ratios)
    assert mean.value is not None
    if mean.low is None or mean.high is None:
        than = f" than {mean.against}" if against else ""
        return f"{_factor(mean.value)}{than} ({mean.reason})"
    if not mean.differs:
        of = f" from {mean.against}" if against else ""
        return f"no difference{of} ({mean.low:.2f} to {mean.high:.2f} times as long)"
    ends = (mean.low, mean.high) if mean.value >= 1 else (1 / mean.high, 1 / mean.low)
    faster, slower = (
        sum(r.differs and (r.value < 1) is less for r in ratios) for less in (True, False)
    )
    ways = f"; faster in {faster}, slower in {slower}" if faster and slower else ""
    than = f" than {mean.against}" if against else ""
    return f"{_factor(mean.value)}{than} ({ends[0]:.2f} to {ends[1]:.2f}{ways})"


def _factor(ratio: float) -> str:
    return f"{1 / ratio:.2f}x faster" if ratio < 1 else f"{ratio:.2f}x slower"


def _alone(rows: Sequence[Row]) -> list[str]:
    """The times of the only subject, from the shortest to the longest."""
    times = [value for row in rows if (value := row.value(FORWARD)) is not None]
    if not times:
        return []
    span = " to ".join(dict.fromkeys((number(min(times)), number(max(times)))))
    workloads = _of_asked(len(times), rows)
    return [f"{rows[0].subject}: {span} ms forward; {_dtypes(rows)}, {workloads}"]


def _dtypes(rows: Sequence[Row]) -> str:
    return " and ".join(dict.fromkeys(str(row.workload.spec.get("dtype", "?")) for row in rows))


def _replay(subject: str, differences: Sequence[float], largest: Sequence[float]) -> str:
    same = sum(not count for count in differences)
    total = len(differences)
    start = f"{subject} reproduces the model's output bit for bit on {same} of {total} captured"
    if same == total:
        return f"{start} workloads"
    return f"{start} workloads; elsewhere it differs by up to {max(largest):.3g}"


def _withheld(records: Sequence[Record]) -> Iterator[str]:
    workloads: dict[str, list[str]] = {}
    for record in records:
        if (record.reason or "").startswith(WITHHELD):
            line = f"{record.subject}: {record.reason}"
            workloads.setdefault(line, []).append(workload_or_cell(record))
    for line, names in workloads.items():
        yield f"{line} ({_first_few(names)})"


def _suspects(rows: Sequence[Row]) -> Iterator[str]:
    suspects = [
        f"{row.subject}, {metric} at {row.workload.name}: {rate.suspect}"
        for row in rows
        for metric, rate in row.rates.items()
        if rate.suspect
    ]
    if suspects:
        yield f"implausibly fast: {_first_few(suspects, '; ')}"


def _copies(rows: Sequence[Row], first: str | None) -> Iterator[str]:
    """An objection to the ratios of workloads on which the baseline copies its inputs."""
    compared = {
        row.workload.name
        for row in rows
        if any(ratio.against == first and ratio.value is not None for ratio in row.ratios.values())
    }
    copied = {
        row.workload.name: value
        for row in rows
        if row.subject == first and row.workload.name in compared
        if (value := row.value("input_copy_bytes"))
    }
    if copied:
        most = size_in_bytes(int(max(copied.values())))
        yield (
            f"baseline {first} copies up to {most} of q, k or v in each timed call "
            f"({_first_few(list(copied))}): ratios against it are not fair"
        )


def _drift(records: Sequence[Record]) -> Iterator[str]:
    drifts: dict[str, float] = {}
    for record in records:
        clocked = record.metric.rpartition(".")[2] == _CLOCK
        if clocked and record.samples and median(record.samples):
            spread = (max(record.samples) - min(record.samples)) / median(record.samples)
            if spread > _MOST_DRIFT:
                drifts[record.cell] = max(spread, drifts.get(record.cell, 0.0))
    if drifts:
        worst = max(drifts, key=lambda cell: drifts[cell])
        yield (
            f"the clock varied by more than {100 * _MOST_DRIFT:.0f} % within "
            f"{counted(len(drifts), 'cell')}, by {100 * drifts[worst]:.0f} % in {worst}: "
            "compare ratios there, not times"
        )


def _few_samples(records: Sequence[Record], config: Mapping[str, str]) -> Iterator[str]:
    wanted = config.get("ROUNDS", "")
    if not wanted.isdigit():
        return
    few = [
        f"{record.subject}, {record.metric} at {workload_or_cell(record)}: {len(record.samples)}"
        for record in records
        if record.metric in PAIRED_METRICS and record.value is not None
        if len(record.samples) < int(wanted)
    ]
    if few:
        yield f"fewer samples than the {wanted} rounds requested: {_first_few(few, '; ')}"


def _first_few(names: Sequence[str], between: str = ", ") -> str:
    """The first few distinct names, and how many more there are."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - _MOST_NAMED
    return between.join(distinct[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
