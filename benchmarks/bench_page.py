"""The tables of docs/results/bench.md, from evidence alone: `python benchmarks/bench_page.py`.

It writes them between the page's marks; a test fails where the page says something else.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import median

import msgspec

from assay.host import CHECKOUT
from assay.laws.growth import exponents
from assay.laws.machines import capacities
from assay.laws.noise import noise_of
from assay.laws.oom import oom_lengths
from assay.laws.pairs import ratio
from assay.laws.rates import rates
from assay.records.schema import CELL_SECONDS, Record, Run
from assay.verify import evidence
from assay.verify import marked_tables as tables

PAGE = CHECKOUT / "docs/results/bench.md"
GRID = ("grid-mha-h200", "grid-gqa-h200", "grid-gemma-h200")
ALL = ("grid-all-h200",)
CUTE = ("baseline-h200", "baseline-more-h200")
FIRST = "sdpa_cudnn"
_TIMES = ("latency_ms", "backward_ms", "training_ms")
_TIMED_MS = (*_TIMES, *(f"{metric}.warmup" for metric in _TIMES))
_KERNEL_MS = 0.1  # above it, clock and profiler are to agree

Key = tuple[str, str, str]  # workload, subject, metric


def written(text: str) -> str:
    """The page with every marked table made anew."""
    return tables.written(text, TABLES)


def speeds(folders: Sequence[str], metric: str) -> str:
    """cuDNN's time and rate on each workload, and the others over it, or how they ended."""
    records = _records(*folders)
    values, speed = _by_key(records), rates(records)
    subjects = dict.fromkeys(s for _, s, m in values if m == "latency_ms" and s != FIRST)
    by_subject: dict[tuple[str, str], dict[str, Record]] = defaultdict(dict)
    for (workload, subject, name), record in values.items():
        by_subject[workload, subject][name] = record
    rows = []
    for workload in dict.fromkeys(w for w, *_ in values):
        first = values[workload, FIRST, metric]
        rate = speed[id(first)]
        row = [_short(workload), f"{median(first.samples):.4g}", f"{rate.tflops:.0f}"]
        for subject in subjects:
            peer = values.get((workload, FIRST, "device_ms"))
            row.append(_over(by_subject[workload, subject], metric, first, peer))
        rows.append(row)
    return _table("|".join(["workload", "cuDNN ms", "TFLOP/s", *subjects]), rows)


def agreement() -> str:
    """Events against the profiler, above 100 microseconds."""
    values = _by_key(_records(*GRID))
    differences = []
    for (workload, subject, metric), record in values.items():
        device = values.get((workload, subject, "device_ms"))
        events = metric == "latency_ms" and record.value and "events" in (record.source or "")
        if events and device and device.value and device.value > _KERNEL_MS:
            differences.append((record.value / device.value - 1, _short(workload), subject))
    differences.sort(key=lambda difference: -abs(difference[0]))
    rows = [[w, s, f"{d:+.1%}"] for d, w, s in differences[:5]]
    within = sum(abs(d) <= 0.02 for d, *_ in differences)
    summary = f"\n{within} of {len(differences)} agree within 2 %; the largest differences:\n\n"
    return summary + _table("workload|implementation|events over profiler, less one", rows)


def noise() -> str:
    """Comparisons of implementations with themselves."""
    rows = [
        [
            name,
            estimate.subject,
            f"{estimate.latency_ms:.4g}",
            f"{estimate.comparisons} x {estimate.rounds}",
            f"{estimate.alarms} ({estimate.alarm_rate:.2%}, below {estimate.alarm_bound:.2%})",
            f"{estimate.planted_share:.0%}",
            f"{estimate.detected} of {estimate.planted} (above {estimate.power_bound:.1%})",
            f"{estimate.smallest_effect:.1%}",
            f"{estimate.between_processes:.2%}",
        ]
        for name in ("noise-h200", "noise-cpu")
        if (evidence.FOLDER / name).is_dir()
        for estimate in noise_of(_load(name))
    ]
    return _table(
        "evidence|implementation|ms|comparisons x rounds|false alarms|planted|found"
        "|smallest effect|between processes",
        rows,
    )


def growth() -> str:
    """Exponents of memory in the length, for as many kv heads as query heads, which come first."""
    fits = exponents(_records(*ALL), metrics=("forward_peak_bytes", "training_peak_bytes"))
    by_subject: dict[str, dict[str, str]] = {}
    for fit in fits:
        if fit.value is not None:
            interval = f"{fit.value:.3f} ({fit.low:.3f} to {fit.high:.3f})"
            by_subject.setdefault(fit.subject, {}).setdefault(fit.metric, interval)
    rows = [
        [subject, texts.get("forward_peak_bytes", ""), texts.get("training_peak_bytes", "")]
        for subject, texts in by_subject.items()
    ]
    return _table("implementation|forward|forward and backward", rows)


def memory_end() -> str:
    """Lengths at which memory runs out: predicted, and found by search."""
    run = msgspec.json.decode((evidence.FOLDER / "oom-h200/run.json").read_bytes(), type=Run)
    lengths = oom_lengths(_records("oom-h200"), capacities=capacities([run]))
    rows = [
        [
            estimate.metric.removesuffix("_peak_bytes"),
            f"{estimate.predicted:,.0f}",
            f"{estimate.observed:,.0f}",
            f"{estimate.difference:+.2%}",
        ]
        for estimate in lengths
        if estimate.predicted and estimate.observed and estimate.difference is not None
    ]
    return _table("pass|predicted tokens|found by search|difference", rows)


def layers() -> str:
    """The Gemma layers beside each other."""
    values = _by_key(_records("layers-h200"))
    subjects = dict.fromkeys(s for _, s, m in values if m == "latency_ms" and s != "cuda:0")
    workload = next(w for w, _, m in values if m == "latency_ms")
    rows = []
    for subject in subjects:
        cells = [subject]
        for metric in ("latency_ms", "backward_ms", "training_ms"):
            record, first = (values[workload, s, metric] for s in (subject, "gemma:xla"))
            cells += [f"{median(record.samples):.4g}", _ratio(record, first)]
        rows.append(cells)
    return _table(
        "layer:core|forward ms|over gemma:xla|backward ms|over gemma:xla|both ms|over gemma:xla",
        rows,
    )


def tiled(metric: str) -> str:
    """Our tiled kernel: ms and the ratio to plain attention, by dtype, length, head dimension."""
    values = _by_key(_records("flash-vs-eager-h200"))
    specs = {w: r.workload.spec for (w, _, m), r in values.items() if m == metric}
    by_shape = {(s["dtype"], s["query_length"], s["head_dim"]): w for w, s in specs.items()}
    dims = sorted({dim for *_, dim in by_shape})
    rows = []
    for dtype, length in sorted({(dtype, length) for dtype, length, _ in by_shape}):
        cells = [dtype, f"{length:,}"]
        for dim in dims:
            workload = by_shape[dtype, length, dim]
            ours, plain = (values[workload, name, metric] for name in ("flash2_triton", "eager"))
            paired = ratio(ours, plain)
            interval = f"{paired.value:.3g} ({paired.low:.3g} to {paired.high:.3g})"
            cells += [f"{median(ours.samples):.3g}", interval]
        rows.append(cells)
    heads = [head for dim in dims for head in (f"d{dim} ms", "over eager")]
    return _table("|".join(["dtype", "tokens", *heads]), rows)


def compiled() -> str:
    """Plain attention compiled by torch over the same as it is."""
    values = _by_key(_records("attention-profile-h200"))
    names = dict.fromkeys(w for w, _, m in values if m == "latency_ms")
    rows = []
    for workload in names:
        cells = [workload.removesuffix("_full_float32")]
        for metric in ("latency_ms", "backward_ms"):
            plain, ours = (values[workload, s, metric] for s in ("eager", "eager_compiled"))
            cells += [f"{median(plain.samples):.4g}", f"{median(ours.samples):.4g}"]
            cells.append(_ratio(ours, plain))
        for metric in ("forward_peak_bytes", "training_peak_bytes"):
            plain, ours = (values[workload, s, metric].value for s in ("eager", "eager_compiled"))
            cells.append(f"{plain / 2**20:,.1f}, {ours / 2**20:,.1f}")
        rows.append(cells)
    return _table(
        "workload|forward ms|compiled|ratio|backward ms|compiled|ratio"
        "|forward peak, compiled (MiB)|training peak, compiled (MiB)",
        rows,
    )


def cells() -> str:
    """Seconds of cells, by length, and of the warm-up and samples among them."""
    rows = []
    for name in ("flash-vs-eager-h200", "attention-profile-h200", *GRID, *ALL):
        took, timed = defaultdict(list), defaultdict(float)
        for record in _records(name):
            length = record.workload.spec["query_length"] if record.workload else 0
            if record.metric in _TIMED_MS:
                timed[length] += sum(record.samples) / 1e3
            elif record.metric == CELL_SECONDS and length:
                took[length].append(record.value)
        for length, seconds in sorted(took.items()):
            spread = f"{min(seconds):.1f} to {max(seconds):.1f}"
            total, share = f"{sum(seconds):.0f}", f"{timed[length]:.1f}"
            rows.append([name, f"{length:,}", f"{len(seconds)}", spread, total, share])
    return _table("evidence|tokens|cells|seconds a cell|together (s)|warm-up and samples (s)", rows)


TABLES: dict[str, Callable[[], str]] = {
    "grid_forward": partial(speeds, GRID, "latency_ms"),
    "grid_backward": partial(speeds, GRID, "backward_ms"),
    "all_forward": partial(speeds, ALL, "latency_ms"),
    "all_backward": partial(speeds, ALL, "backward_ms"),
    "cute_forward": partial(speeds, CUTE, "latency_ms"),
    "cute_backward": partial(speeds, CUTE, "backward_ms"),
    "agreement": agreement,
    "noise": noise,
    "growth": growth,
    "memory_end": memory_end,
    "layers": layers,
    "tiled_forward": partial(tiled, "latency_ms"),
    "tiled_backward": partial(tiled, "backward_ms"),
    "compiled": compiled,
    "cells": cells,
}


def _over(
    of_subject: dict[str, Record], metric: str, first: Record, first_device: Record | None
) -> str:
    """The ratio of a subject's time to the first one's; where clocks differ that of the kernels'
    own time, marked; where there is no time, how it ended."""
    record, device = of_subject.get(metric), of_subject.get("device_ms")
    if record is None or record.value is None:
        return _ending(of_subject.values())
    text = _ratio(record, first)
    kernels = metric == "latency_ms" and device and first_device
    if text == "other clock" and kernels and device.value and first_device.value:
        return f"{device.value / first_device.value:.2f} k"
    return text


def _ratio(record: Record, peer: Record | None) -> str:
    if peer is None or peer.subject == record.subject:
        return ""
    paired = ratio(record, peer)
    if paired.value is None:
        return "other clock" if "clock" in paired.reason else ""
    return f"{paired.value:.2f} ({paired.low:.2f} to {paired.high:.2f})"


def _ending(records: Iterable[Record]) -> str:
    """Status of a subject without a time."""
    ended = {record.status for record in records if record.status != "ok"}
    return ", ".join(sorted(ended)) or "not measured"


def _records(*names: str) -> list[Record]:
    return [record for name in names for record in _load(name)]


_load = cache(evidence.load)  # tables share their evidence


def _by_key(records: Sequence[Record]) -> dict[Key, Record]:
    return {(r.workload.name, r.subject, r.metric): r for r in records if r.workload}


def _short(workload: str) -> str:
    return workload.removesuffix("_causal_bfloat16")


def _table(columns: str, rows: Sequence[Sequence[str]]) -> str:
    names = columns.split("|")
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    Path(PAGE).write_text(written(PAGE.read_text()))
