"""The tables of docs/results/models.md, from evidence alone: `python benchmarks/models_page.py`.

It writes them between the page's marks; a test fails where the page says something else.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import structs

from assay import plugins
from assay.host import CHECKOUT
from assay.laws.pairs import ratio
from assay.records.schema import Record
from assay.verify import evidence
from assay.verify import marked_tables as tables

PAGE = CHECKOUT / "docs/results/models.md"
EVIDENCE = ("models-h200", "models-gates")
THROUGH_KERNELS = "models-decode-h200"  # decode through the kernels of attention/decode
_AFTER = "kernels_"  # before the metrics of these records
BASELINE = "GPT2"
TARGET = 1.25  # a measured ratio over the predicted one
PASSES = ("forward", "training", "decode_b64", "decode_b1")
_ENDS = ("ok", "failed", "unsupported")
_HARMLESS = ("ok", "unsupported")
_CEILINGS = ("matmul_rate", "copy_bandwidth", "launch_us")

RecordsByKey = dict[tuple[str, str], Record]  # by subject and metric


def written(text: str, records: Sequence[Record]) -> str:
    """The page with every marked table made anew."""
    keyed = by_key(records)
    return tables.written(text, {name: partial(make, keyed) for name, make in TABLES.items()})


def training(records: RecordsByKey) -> str:
    """Forward, and forward with backward: times, ratios, what the counted work predicts."""
    rows = []
    for subject in _subjects(records):
        cells = [subject, _number(records, subject, "parameters", 1e-6, "{:.2f}")]
        for metric in ("forward", "training"):
            cells += _timed(records, subject, metric) + _predicted(records, subject, metric)
        rows.append(cells)
    return _table(
        "variant|parameters (M)|forward ms|over GPT2|predicted|measured over it"
        "|forward and backward ms|over GPT2|predicted|measured over it",
        rows,
    )


def decode(records: RecordsByKey) -> str:
    """One token through a full cache, a CUDA graph: the same, for 64 sequences and for one."""
    rows = []
    for subject in _subjects(records):
        cells = [
            subject,
            _number(records, subject, "decode_b1_cache_bytes", 2**-20, "{:.2f}"),
        ]
        for metric in ("decode_b64", "decode_b1"):
            cells += _timed(records, subject, metric) + _predicted(records, subject, metric)
        rows.append(cells)
    return _table(
        "variant|cache (MiB a sequence)|64 sequences ms|over GPT2|predicted|measured over it"
        "|1 sequence ms|over GPT2|predicted|measured over it",
        rows,
    )


def launches(records: RecordsByKey) -> str:
    """Kernels of decoding: operators, what is predicted with their launches, and the
    same step without a CUDA graph."""
    rows = []
    for subject in _subjects(records):
        cells = [subject, _number(records, subject, "decode_b1_operators", 1, "{:.0f}")]
        for metric in ("decode_b64", "decode_b1"):
            cells += [
                _number(records, subject, f"{metric}_launched_ratio", 1, "{:.2f}"),
                _number(records, subject, f"{metric}_over_launched", 1, "{:.2f}"),
                _number(records, subject, f"{metric}_needed_ratio", 1, "{:.2f}"),
                _number(records, subject, f"{metric}_eager_ms", 1, "{:.3g}"),
            ]
        rows.append(cells)
    columns = "with launches|measured over it|by needed bytes|eager ms"
    names = [f"{batch}: {name}" for batch in ("64", "1") for name in columns.split("|")]
    return _table("|".join(["variant", "operators", *names]), rows)


def beyond(records: RecordsByKey) -> str:
    """Passes that take longer than TARGET times what is predicted, and the kernels they run."""
    rows, judged = [], 0
    for metric in PASSES:
        for subject in _subjects(records):
            over = records.get((subject, f"{metric}_over_predicted"))
            if over is None or over.value is None:
                continue
            judged += 1
            if over.value > TARGET:
                rows.append(
                    [
                        subject,
                        metric,
                        f"{over.value:.2f}",
                        _number(records, subject, f"{metric}_over_launched", 1, "{:.2f}"),
                        _kernels(records, subject, metric),
                    ]
                )
    summary = f"\n{judged - len(rows)} of {judged} passes are within {TARGET}; the others:\n\n"
    return summary + _table(
        "variant|pass|over predicted|over predicted with launches|operators, GPT2's", rows
    )


def kernels(records: RecordsByKey) -> str:
    """Decode before and through kernels, beside the predictions, which stay as they are."""
    rows, judged, within = [], 0, 0
    for subject in _subjects(records):
        cells = [subject]
        for metric in PASSES:
            ratio_before = records.get((subject, f"{metric}_ratio"))
            now = records.get((subject, f"{_AFTER}{metric}_ratio"), ratio_before)
            predicted = records.get((subject, f"{metric}_predicted_ratio"))
            over = ""
            if now is not None and predicted is not None:
                judged, share = judged + 1, now.value / predicted.value
                within, over = within + (share <= TARGET), f"{share:.2f}"
            if metric.startswith("decode"):
                cells += [
                    _number(records, subject, f"{_AFTER}{metric}_ms", 1, "{:.3g}"),
                    _number(records, subject, f"{metric}_ratio", 1, "{:.2f}"),
                    _number(records, subject, f"{_AFTER}{metric}_ratio", 1, "{:.2f}"),
                    _number(records, subject, f"{metric}_predicted_ratio", 1, "{:.2f}"),
                    over,
                ]
        rows.append(cells)
    columns = "ms|over GPT2 before|over GPT2|predicted|measured over it"
    names = [f"{batch}: {name}" for batch in ("64", "1") for name in columns.split("|")]
    summary = f"\n{within} of {judged} passes are within {TARGET}, training as above.\n\n"
    return summary + _table("|".join(["variant", *names]), rows)


def machine(records: RecordsByKey) -> str:
    """The ceilings that predictions are made with."""
    rows = [
        [record.metric, f"{record.value:.4g} {record.unit}", record.source or ""]
        for metric in _CEILINGS
        for (_, name), record in records.items()
        if name == metric and record.value is not None
    ]
    return _table("ceiling|measured|how", rows)


def gates(records: RecordsByKey) -> str:
    """Verdicts of each gate on all models, and how many gates each model passes."""
    verdicts = {key: r for key, r in records.items() if r.stage == "models" and key[1] in _gates()}
    rows = []
    for subject in dict.fromkeys(subject for subject, _ in verdicts):
        own = {gate: r.status for (name, gate), r in verdicts.items() if name == subject}
        applies = [status for status in own.values() if status != "unsupported"]
        failed = ", ".join(gate for gate, status in own.items() if status not in _HARMLESS)
        parts = next(r.workload.spec["parts"] for (n, _), r in verdicts.items() if n == subject)
        passed = f"{applies.count('ok')} of {len(applies)}"
        rows.append([subject, " ".join(parts) or "none", passed, failed])
    counts = [
        [
            gate,
            *(
                str(sum(r.status == s for (_, g), r in verdicts.items() if g == gate))
                for s in _ENDS
            ),
        ]
        for gate in _gates()
        if any(name == gate for _, name in verdicts)  # the evidence may be older than a gate
    ]
    return (
        _table("gate|passed|failed|does not apply", counts)
        + f"\n{len(rows)} models:\n\n"
        + _table("model|parts|gates passed|fails", rows)
    )


def _gates() -> list[str]:
    listed = plugins.listing("gates").values()
    return [p.name for p in sorted(listed, key=lambda p: (p.literals["ORDER"], p.name))]


TABLES: dict[str, Callable[[RecordsByKey], str]] = {
    "training": training,
    "decode": decode,
    "launches": launches,
    "beyond": beyond,
    "kernels": kernels,
    "machine": machine,
    "gates": gates,
}


def by_key(records: Sequence[Record]) -> RecordsByKey:
    """Records by subject and metric; of what two cells measured, the last."""
    return {(record.subject, record.metric): record for record in records}


def _subjects(records: RecordsByKey) -> list[str]:
    """Those that were timed or failed to be, in the order of the records."""
    kinds = {f"{metric}_ms" for metric in PASSES} | {"training", "decode", *PASSES}
    return list(dict.fromkeys(subject for subject, metric in records if metric in kinds))


def _timed(records: RecordsByKey, subject: str, metric: str) -> list[str]:
    """The time and its ratio to the baseline, or how the subject ended."""
    record, peer = (records.get((name, f"{metric}_ms")) for name in (subject, BASELINE))
    if record is None or record.value is None:
        return [_ending(records, subject, metric), ""]
    cells = [f"{record.value:.3g}", ""]
    if peer is not None and subject != BASELINE:
        between = ratio(record, peer)
        if between.value is not None:
            cells[1] = f"{between.value:.2f}"
        if between.low is not None:
            cells[1] += f" ({between.low:.2f} to {between.high:.2f})"
    return cells


def _predicted(records: RecordsByKey, subject: str, metric: str) -> list[str]:
    over = _number(records, subject, f"{metric}_over_predicted", 1, "{:.2f}")
    return [_number(records, subject, f"{metric}_predicted_ratio", 1, "{:.2f}"), over]


def _ending(records: RecordsByKey, subject: str, metric: str) -> str:
    for name in (metric, metric.partition("_")[0], "training"):
        record = records.get((subject, name))
        if record is not None and record.status != "ok":
            return record.status
    return "not measured"


def _kernels(records: RecordsByKey, subject: str, metric: str) -> str:
    own, base = (
        _number(records, name, f"{metric}_operators", 1, "{:.0f}") for name in (subject, BASELINE)
    )
    return f"{own}, {base}"


def _number(records: RecordsByKey, subject: str, metric: str, scale: float, form: str) -> str:
    record = records.get((subject, metric))
    return "" if record is None or record.value is None else form.format(record.value * scale)


def _table(columns: str, rows: Sequence[Sequence[str]]) -> str:
    names = columns.split("|")
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def kept_records() -> list[Record]:
    """All records behind the page; those of decode through kernels under metrics of their own."""
    kept = [record for name in EVIDENCE for record in evidence.load(name)]
    after = evidence.load(THROUGH_KERNELS)
    return kept + [structs.replace(r, metric=f"{_AFTER}{r.metric}") for r in after]


if __name__ == "__main__":
    kept = kept_records()
    Path(PAGE).write_text(written(PAGE.read_text(), kept))
