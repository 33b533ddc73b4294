"""Lines above the tables: how subjects compare with the baseline, and objections."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean, median

from assay.laws.pairs import PAIRED_METRICS, Ratio
from assay.records.schema import SHARED_STATE, Record
from assay.reports.numerals import counted, size_in_bytes
from assay.reports.ratios import baseline
from assay.reports.speed_rows import BACKWARD, FORWARD, Row
from assay.reports.table import workload_or_cell
from assay.reports.training_rows import PairedDifference, paired, trained_models
from assay.reports.unchecked import WITHHELD

_PASSES = {FORWARD: "forward", BACKWARD: "backward"}
_REPLAY_COUNT = "replayed_differences"
_REPLAY_LARGEST = "replayed_largest_difference"
_CLOCK = "sm_clock_mhz"
_MOST_DRIFT = 0.05
_MOST_NAMED = 4


def comparisons(rows: Sequence[Row]) -> list[str]:
    """A sentence for each subject that was measured beside the baseline: by how much it differs."""
    ratios: dict[str, dict[str, list[Ratio]]] = {}
    for row in rows:
        for metric in _PASSES:
            if metric in row.ratios and row.ratios[metric].value is not None:
                by_pass = ratios.setdefault(row.subject, {})
                by_pass.setdefault(metric, []).append(row.ratios[metric])
    both = any(BACKWARD in by_pass for by_pass in ratios.values())
    return [_comparison(subject, by_pass, both=both) for subject, by_pass in ratios.items()]


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
        *_few_samples(records, config),
    ]


def shared_state(records: Sequence[Record]) -> list[str]:
    """A sentence for each subject that changed what all code of its process shares."""
    remarks = (record for record in records if record.metric == SHARED_STATE)
    return list(dict.fromkeys(f"{record.subject} {record.reason}" for record in remarks))


def _training(pair: PairedDifference) -> str:
    start = f"{pair.model} against {pair.against}"
    if pair.mean is None:
        return f"{start}: not compared: {pair.reason}"
    half = f" ± {pair.half_width:.4f}" if pair.half_width is not None else ""
    seeds = counted(len(pair.by_seed), "seed")
    caveats = f" ({', '.join(pair.caveats)})" if pair.caveats else ""
    return f"{start} over {seeds}: {pair.mean:+.4f}{half} nats, {pair.verdict}{caveats}"


def _comparison(subject: str, by_pass: dict[str, list[Ratio]], *, both: bool) -> str:
    """Several workloads are told by their mean and by how many differ each way."""
    workloads = max(len(ratios) for ratios in by_pass.values())
    words = _single if workloads == 1 else _overall
    parts = [
        f"{_PASSES[metric]} {words(ratios)}" if both else words(ratios)
        for metric, ratios in by_pass.items()
    ]
    against = next(iter(by_pass.values()))[0].against
    mean = f", mean of {workloads} workloads" if workloads > 1 else ""
    return f"{subject} against {against}{mean}: {'; '.join(parts)}"


def _single(ratios: Sequence[Ratio]) -> str:
    """One ratio in words, with its interval as a factor of speed."""
    (ratio,) = ratios
    assert ratio.value is not None
    if ratio.low is None or ratio.high is None:
        return f"{_factor(ratio.value)} ({ratio.reason})"
    if not ratio.differs:
        return f"no difference ({ratio.low:.2f}–{ratio.high:.2f} times as long)"
    ends = (ratio.low, ratio.high) if ratio.value >= 1 else (1 / ratio.high, 1 / ratio.low)
    return f"{_factor(ratio.value)} ({ends[0]:.2f}–{ends[1]:.2f})"


def _overall(ratios: Sequence[Ratio]) -> str:
    """Ratios of many workloads in one clause, by their geometric mean."""
    values = [ratio.value for ratio in ratios if ratio.value is not None]
    faster = sum(ratio.differs for ratio in ratios if ratio.value is not None and ratio.value < 1)
    slower = sum(ratio.differs for ratio in ratios if ratio.value is not None and ratio.value > 1)
    unsure = sum(ratio.low is None for ratio in ratios)
    counts = {
        "faster": faster,
        "slower": slower,
        "no difference": len(ratios) - faster - slower - unsure,
        "too few rounds to be sure": unsure,
    }
    ways = ", ".join(f"{word} in {count}" for word, count in counts.items() if count)
    return f"{_factor(geometric_mean(values))} ({ways})"


def _factor(ratio: float) -> str:
    return f"{1 / ratio:.2f}x faster" if ratio < 1 else f"{ratio:.2f}x slower"


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
    copied = {
        row.workload.name: value
        for row in rows
        if row.subject == first and (value := row.value("input_copy_bytes"))
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
