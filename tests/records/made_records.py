"""Records to write into logs, made by tests and by the processes that tests start."""

from pathlib import Path

from assay.records.log import Log
from assay.records.run import RunFolder, save
from assay.records.schema import SCHEMA, Record, Run, Session

RUN = "20250101T000000Z-abcd"


def record(**changes) -> Record:
    """One record of the first attempt at `cell`, in a session late enough for any attempt."""
    fields = {
        "schema": SCHEMA,
        "run": RUN,
        "session": 9,
        "stage": "bench",
        "cell": "cell",
        "fingerprint": "f0",
        "host": "h0",
        "time": "2025-01-01T00:00:00.000Z",
        "metric": "latency_ms",
        "value": 1.5,
        "unit": "ms",
    }
    return Record(**{**fields, **changes})


def batch(name: str, size: int, **changes) -> list[Record]:
    """A batch whose records can be told from those of every other: `name` and a count."""
    return [record(cell=name, value=float(index), **changes) for index in range(size)]


def written(path: Path, *batches: list[Record]) -> Path:
    """A log that holds `batches`."""
    with Log(path) as log:
        for records in batches:
            log.append(records)
    return path


def contents(records: list[Record]) -> list[tuple[str, float | None]]:
    """Metrics and values that `batch` put in, without what the log adds."""
    return [(record.cell, record.value) for record in records]


def run_json(**changes) -> Run:
    """The `run.json` of a small run."""
    session = Session(
        number=1,
        started="2025-01-01T00:00:00.000Z",
        commit=None,
        dirty=None,
        host={"cores": 2},
        command=["assay", "study", "run"],
    )
    fields = {
        "schema": SCHEMA,
        "run": RUN,
        "study": "small",
        "config": {"SEED": "3", "STUDY": '"small"'},
        "sessions": [session],
        "plugins": [],
        "reasons": {"commit": "no git here"},
        "seed": 3,
        "dtype": ["float32"],
    }
    return Run(**{**fields, **changes})


def run_folder(results: Path, *, study: str = "small", name: str = RUN, **stages) -> RunFolder:
    """A run with run.json, and for each stage given by name a log of the batches given."""
    folder = RunFolder(path=results / study / name)
    folder.path.mkdir(parents=True)
    save(folder, run_json(run=name, study=study))
    for stage, batches in stages.items():
        folder.stage(stage).mkdir(parents=True)
        written(folder.log(stage), *batches)
    return folder
