"""The schema of a record: one measured or refused value, with all that is needed to trace it.

An unknown value is None with a reason, never zero. Statistics are computed on reading.
"""

from typing import Any, Literal

import msgspec

from assay.records.foreign_text import message, messages, visible

SCHEMA = 1
# No number is larger: the squares of many, added up, are still finite.
LARGEST = 1e150

Status = Literal["ok", "failed", "oom", "timeout", "unsupported", "skipped", "refused"]
Level = Literal["kernel", "layer", "model", "serving"]

# From what needs a reader's eye most to what needs it least.
SEVERITY: tuple[Status, ...] = (
    "failed",
    "oom",
    "timeout",
    "refused",
    "skipped",
    "unsupported",
    "ok",
)

# The last record of every cell. Its presence is what makes a cell finished.
CELL_SECONDS = "cell_seconds"
# The last record of a batch that a cell appends while it runs: the number of the batch.
CELL_PROGRESS = "cell_progress"
# A remark on a subject: what it changed that all code of its process shares.
SHARED_STATE = "shared_state"
# Remarks on a cell: the machine was busy, and that it was measured by an earlier run.
MACHINE_LOAD, REUSED = "machine_load", "reused"
# What is recorded of a cell itself and is no result.
CELL_METRICS = (CELL_SECONDS, CELL_PROGRESS, SHARED_STATE, MACHINE_LOAD, REUSED)

# Begins the metrics of instruments that were given a known quantity.
CALIBRATION = "calibration."
# Bandwidth of reading an array again and again that is so small, in KiB after the dot.
CACHED_BANDWIDTH = "read_bandwidth."

# What the driver of a device reports of it, beside what is measured.
DEVICE_READINGS = ("sm_clock_mhz", "power_w", "temperature_c", "utilisation")

# The stage for models, and what it records beside its gates, which are its other metrics.
MODELS = "models"
MODEL_PARAMETERS = "parameters"
MODEL_CACHE_BYTES = "cache_bytes_per_token"
MODEL_SECONDS = "examination_s"
NOT_EXAMINED = "not examined: "  # begins the reason of a gate that applies and could not look

# Of a text in `data`, which may hold what a model wrote; that of a reason is in foreign_text.py.
_MOST_DATA_CHARACTERS = 20_000

# Bytes of a number, by the dtype that a workload's specification names.
# Bytes of one element, by dtype: those that workloads have, and those that only caches keep.
ELEMENT_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
ELEMENT_BYTES |= {"float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1, "uint8": 1}


# Of a workload's specification: whole numbers from 1, and what is of another type.
_SIZES = frozenset(("batch", "heads", "kv_heads", "query_length", "key_length", "head_dim"))
LARGEST_SIZE = 999_999_999
_WORDS = {"causal": bool, "dtype": str}


class WorkloadIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of a workload: its specification, and a hash of the very bytes."""

    name: str
    spec: dict[str, Any]
    content: str | None  # None when the inputs were never made

    def __post_init__(self) -> None:
        """Refuse what is no attention call, so that whoever reads a size can compute with it."""
        if not self.name.isprintable():
            msgspec.structs.force_setattr(self, "name", visible(self.name))
        for name, value in self.spec.items():
            size = name in _SIZES and not (type(value) is int and 1 <= value <= LARGEST_SIZE)
            if size or (name in _WORDS and type(value) is not _WORDS[name]):
                raise ValueError(f"workload {self.name[:80]!r} has {name} = {str(value)[:80]}")


class Measurement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A probe's result for one subject. Its texts may be a stranger's: see foreign_text.py."""

    metric: str
    value: float | None
    unit: str
    subject: str = ""
    samples: list[float] = []
    status: Status = "ok"
    reason: str | None = None
    cause: str | None = None  # of a failure: what probably went wrong, in words
    level: Level | None = None
    source: str | None = None  # the instrument or formula behind the value
    workload: WorkloadIdentity | None = None
    data: dict[str, Any] | None = None  # what the reason says in words, for programs
    alone: bool = False  # measured apart from its cell's other subjects, so not paired with them

    def __post_init__(self) -> None:
        assign = msgspec.structs.force_setattr
        if not f"{self.metric}{self.unit}{self.subject}".isprintable():
            for name in ("metric", "unit", "subject"):
                assign(self, name, visible(getattr(self, name)))
        for name in ("reason", "cause", "source"):
            if text := getattr(self, name):
                assign(self, name, message(text))
        if self.data:
            assign(self, "data", messages(self.data, _MOST_DATA_CHARACTERS))
        if self.value is None and not self.reason:
            raise ValueError(f"{self.metric} of {self.subject!r} has neither a value nor a reason")
        if self.status != "ok" and not self.reason:
            raise ValueError(f"{self.metric} of {self.subject!r} is {self.status} without a reason")
        if not all(abs(number) <= LARGEST for number in (self.value or 0.0, *self.samples)):
            raise ValueError(
                f"{self.metric} of {self.subject!r} is not finite, or beyond {LARGEST:g} "
                f"(value {self.value}); report it as failed, with value None and the reason"
            )


class Record(Measurement, frozen=True, kw_only=True, omit_defaults=True):
    """A measurement with its provenance: one line of `metrics.jsonl`."""

    schema: int
    run: str
    session: int  # which start of the run made it; run.json holds that start's commit and versions
    stage: str
    cell: str  # the cell's name: stable while code and thresholds change
    fingerprint: str  # covers the cell's options, thresholds and internal files
    host: str
    time: str  # UTC, ISO 8601
    sequence: int = 0  # position in its log; given by the log
    attempt: int = 1  # the highest attempt of a cell supersedes the others
    closes: int = 0  # on the last record of a batch, how many records the batch has
    total: int | None = None  # of cell_progress: how many batches there will be, where it is known

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attempt > self.session:
            raise ValueError(
                f"attempt {self.attempt} of {self.cell!r} in session {self.session}: "
                "a session attempts a cell at most once"
            )


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """Provenance that all records of an attempt at a cell share."""

    run: str
    session: int
    stage: str
    cell: str
    fingerprint: str
    attempt: int


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A start of a run: resuming adds another and overwrites none."""

    number: int
    started: str
    commit: str | None
    dirty: bool | None
    host: dict[str, Any]
    command: list[str]

    def __post_init__(self) -> None:
        devices = self.host.get("devices", ())
        if not isinstance(devices, list | tuple) or not all(isinstance(d, dict) for d in devices):
            raise ValueError(f"the devices of a host are {str(devices)[:80]!r}, wanted a list")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: the resolved config and the fixed keys that comparisons need.

    A key that does not apply or is not known is null, and `reasons` says why.
    """

    schema: int
    run: str
    study: str
    config: dict[str, str]
    sessions: list[Session]
    plugins: list[str]
    reasons: dict[str, str]
    budget: float | None = None
    batch: list[int] | None = None
    accumulation: int | None = None
    devices: list[str] | None = None
    compiled: bool | None = None
    dtype: list[str] | None = None
    dataset: str | None = None
    eval_stream: str | None = None
    seed: int | None = None
    commit: str | None = None
    dirty: bool | None = None
    host: str | None = None
    versions: dict[str, str] | None = None
    tracker_project: str | None = None
    tracker_run: str | None = None


# Those of Run's fields that two runs must share to be compared.
KEYS = tuple(field.name for field in msgspec.structs.fields(Run) if not field.required)
