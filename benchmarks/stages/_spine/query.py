"""A grouped query over a million records, against reading the same files with json.

Both sides find count and mean for each subject, workload and metric, and must agree. Targets: at
least 8 times as fast without an index, at least 50 times with one.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from assay.records.durable import make_folder
from assay.records.log import Log
from assay.records.query import INDEX_FOLDER, Records
from assay.records.run import RunFolder, create, save
from assay.records.schema import SCHEMA, Measurement, Run, WorkloadIdentity

from .made_records import SAMPLES, batches
from .rounds import interleaved, measured, ratios

SUBJECTS = ("json_loop", "records")
SIZES = {"rounds": 5, "runs": 5, "cells": 1000, "cell_records": 100}
STAGES = ("check", "bench")
SQL = """
    SELECT subject, workload.name, metric, count(*), avg(value)
    FROM records GROUP BY subject, workload.name, metric
"""

# subject, workload, metric -> count, mean
Groups = dict[tuple[str, str, str], tuple[int, float]]


def measure(
    scratch: Path, *, rounds: int, runs: int, cells: int, cell_records: int
) -> Iterator[Measurement]:
    """`query_first_ratio`, `index_build_s`, `query_repeat_ratio`, and the times behind them.

    `cells` counts those of each stage of each run.
    """
    count = runs * len(STAGES) * cells * cell_records
    spec = {"records": count, "runs": runs, "logs": runs * len(STAGES), "samples": SAMPLES}
    workload = WorkloadIdentity(name=f"query_{count}_records", spec=spec, content=None)
    with TemporaryDirectory(prefix=".spine-", dir=make_folder(scratch)) as folder:
        results = Path(folder)
        logs = [log for n in range(runs) for log in _make_run(results, n, cells, cell_records)]
        _refuse_disagreement(results, logs)
        yield from _against_json("first", results, logs, rounds, workload)
        builds = [_index_s(results) for _ in range(rounds)]
        yield measured(
            "index_build_s",
            builds,
            unit="s",
            subject="records",
            source="wall time of Records.index() where there is no index",
            workload=workload,
        )
        _refuse_disagreement(results, logs)
        yield from _against_json("repeat", results, logs, rounds, workload)


def _against_json(
    which: str, results: Path, logs: Sequence[Path], rounds: int, workload: WorkloadIdentity
) -> Iterator[Measurement]:
    sides = {
        "json_loop": partial(_elapsed_s, partial(_json_loop, logs)),
        "records": partial(_elapsed_s, partial(_records, results)),
    }
    samples = interleaved(sides, rounds=rounds)
    index = {"first": "no index", "repeat": "a current index"}[which]
    how = f"a new Records object with {index}, files in the page cache"
    for name, samples_s in samples.items():
        yield measured(
            f"query_{which}_s",
            samples_s,
            unit="s",
            subject=name,
            source=f"wall time of one grouped query: json.loads of every line, or {how}",
            workload=workload,
        )
    yield measured(
        f"query_{which}_ratio",
        ratios(samples["json_loop"], samples["records"]),
        unit="",
        subject="records",
        source=f"time of json.loads of every line over that of {how}, round by round",
        workload=workload,
    )


def _elapsed_s(answer: Callable[[], Groups]) -> float:
    start = time.perf_counter()
    answer()
    return time.perf_counter() - start


def _index_s(results: Path) -> float:
    shutil.rmtree(results / INDEX_FOLDER, ignore_errors=True)
    start = time.perf_counter()
    Records(results).index()
    return time.perf_counter() - start


def _records(results: Path) -> Groups:
    return {tuple(key): (count, mean) for *key, count, mean in Records(results).query(SQL).rows}


def _json_loop(logs: Sequence[Path]) -> Groups:
    groups: dict[tuple[str, str, str], list[float]] = {}
    for path in logs:
        with open(path, encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                key = (record.get("subject", ""), record["workload"]["name"], record["metric"])
                group = groups.setdefault(key, [0, 0.0])
                group[0] += 1
                group[1] += record["value"]
    return {key: (int(count), total / count) for key, (count, total) in groups.items()}


def _refuse_disagreement(results: Path, logs: Sequence[Path]) -> None:
    ours, theirs = _records(results), _json_loop(logs)
    if ours != theirs:
        different = next(key for key in ours.keys() | theirs if ours.get(key) != theirs.get(key))
        raise RuntimeError(
            f"the two sides disagree about {different}: Records says {ours.get(different)}, "
            f"the json loop {theirs.get(different)}; nothing is timed"
        )


def _make_run(results: Path, number: int, cells: int, cell_records: int) -> Iterator[Path]:
    """A run with a log for each stage, written as a study writes it."""
    folder = create(results, "made")
    save(folder, _run(folder))
    for seed, stage in enumerate(STAGES, start=number * len(STAGES)):
        make_folder(folder.stage(stage))
        with Log(folder.log(stage)) as log:
            for batch in batches(
                run=folder.path.name, stage=stage, cells=cells, cell_records=cell_records, seed=seed
            ):
                log.append(batch)
        yield folder.log(stage)


def _run(folder: RunFolder) -> Run:
    return Run(
        schema=SCHEMA,
        run=folder.path.name,
        study="made",
        config={},
        sessions=[],
        plugins=[],
        reasons={},
    )
