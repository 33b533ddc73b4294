"""Records of made-up measurements that obey a known law, for tests of the laws."""

from pathlib import Path
from statistics import median

import numpy as np

from assay.records.log import Log
from assay.records.run import RunFolder, save
from assay.records.schema import SCHEMA, Record, Run, Session, WorkloadIdentity

RUN = "20250101T000000Z-abcd"
HOST = "deadbeef00000000"
LENGTHS = (256, 512, 1024, 2048, 4096, 8192)


def workload(length: int = 1024, **changes) -> WorkloadIdentity:
    """Causal attention of one sequence in bfloat16, 32 heads and 8 kv heads of 128."""
    spec = {
        "batch": 1,
        "heads": 32,
        "kv_heads": 8,
        "query_length": length,
        "key_length": length,
        "head_dim": 128,
        "dtype": "bfloat16",
        "causal": True,
        "seed": 0,
        **changes,
    }
    letters = {"b": "batch", "h": "heads", "kv": "kv_heads", "q": "query_length"}
    letters |= {"k": "key_length", "d": "head_dim"}
    name = "_".join(f"{letter}{spec[field]}" for letter, field in letters.items())
    mask = "causal" if spec["causal"] else "full"
    return WorkloadIdentity(name=f"{name}_{mask}_{spec['dtype']}", spec=spec, content="c" * 16)


def record(metric: str = "latency_ms", value: float | None = None, **changes) -> Record:
    """One record of the bench; its cell is its workload, its value the median of its samples."""
    samples = changes.get("samples", [])
    if value is None and samples:
        value = median(samples)
    fields = {
        "schema": SCHEMA,
        "run": RUN,
        "session": 1,
        "stage": "bench",
        "subject": "eager",
        "fingerprint": "f" * 16,
        "host": HOST,
        "time": "2025-01-01T00:00:00.000Z",
        "metric": metric,
        "value": value,
        "unit": "ms" if metric.endswith("_ms") else "B",
        "level": "kernel",
        "workload": workload(),
        **changes,
    }
    place = fields["workload"].name if fields["workload"] else "peaks"
    return Record(**{"cell": place, **fields})


def ceilings(device: str = "cuda:0", *, tflops: float = 800.0, gbps: float = 4000.0, **changes):
    """Measured ceilings of a machine: matrix products and reading."""
    fields = {"stage": "host", "subject": device, "workload": None, **changes}
    return [
        record("matmul_rate", tflops, unit="TFLOP/s", **fields),
        record("read_bandwidth", gbps, unit="GB/s", **fields),
    ]


def timed(subject, value_at, *, lengths=LENGTHS, rounds=40, noise=0.02, drift=True, **changes):
    """Samples around a law; the machine's drift is common to all subjects of a cell."""
    records = []
    for length in lengths:
        common = np.random.default_rng(length).normal(0, 0.2 if drift else 0, rounds)
        own = np.random.default_rng([length, *subject.encode()]).normal(0, noise, rounds)
        samples = (value_at(length) * np.exp(common + own)).tolist()
        records.append(
            record(samples=samples, subject=subject, workload=workload(length), **changes)
        )
    return records


def eager(s):
    return 1e-6 * s**2


def flash(s):
    """Meets `eager` at 1,100 tokens."""
    return 1e-6 * 1100 * s


def level(lengths=LENGTHS) -> list[Record]:
    """Two subjects, eager and flash, whose noise is symmetric, so that no difference is real."""
    samples = {"eager": [1.0, 1.1, 1.2, 1.1] * 10, "flash": [1.0, 1.2, 1.1, 1.1] * 10}
    return [
        record(samples=values, subject=subject, workload=workload(length))
        for length in lengths
        for subject, values in samples.items()
    ]


GPU = (
    {"kind": "cpu", "index": 0, "name": "A CPU", "memory_bytes": 8 << 30},
    {"kind": "cuda", "index": 0, "name": "A GPU", "memory_bytes": 140 << 30},
)


def run_json(
    *, host: str = HOST, name: str = RUN, device: str | None = "cuda:0", devices=GPU
) -> Run:
    """The run.json of a run on one of the described `devices`: a GPU of 140 GiB."""
    session = Session(
        number=1,
        started="2025-01-01T00:00:00.000Z",
        commit="0123456789abcdef0123",
        dirty=False,
        host={"fingerprint": host, "devices": list(devices)},
        command=["assay", "bench"],
    )
    fields = {"schema": SCHEMA, "run": name, "study": "bench", "config": {}, "plugins": []}
    return Run(
        **fields, sessions=[session], reasons={}, devices=[device] if device else None, host=host
    )


def write_run(results: Path, records: list[Record], **changes) -> Path:
    """A run's folder that holds these records, each in the log of its stage."""
    run = run_json(**changes)
    folder = RunFolder(path=results / "bench" / run.run)
    folder.path.mkdir(parents=True)
    save(folder, run)
    for stage in dict.fromkeys(record.stage for record in records):
        folder.stage(stage).mkdir(parents=True)
        with Log(folder.log(stage)) as log:
            log.append([record for record in records if record.stage == stage])
    return folder.path
