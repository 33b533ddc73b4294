"""The first study a user runs, from the command to the written report. Target: under 90 s."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from assay.records.durable import make_folder
from assay.records.schema import Measurement, WorkloadIdentity

from .fresh_process import elapsed_s
from .rounds import measured

SUBJECTS = ("assay",)
SIZES = {"rounds": 2, "settings": []}


def measure(scratch: Path, *, rounds: int, settings: Sequence[str]) -> Iterator[Measurement]:
    """`quickstart_s`. `settings` are SYMBOL=VALUE entries over the defconfig, for a smaller one."""
    spec = {"config": "quickstart", "settings": list(settings)}
    yield measured(
        "quickstart_s",
        [_study_s(make_folder(scratch), settings) for _ in range(rounds)],
        unit="s",
        subject="assay",
        source="wall time of python -m assay study run --config quickstart, report included",
        workload=WorkloadIdentity(name="quickstart", spec=spec, content=None),
    )


def _study_s(scratch: Path, settings: Sequence[str]) -> float:
    sets = [argument for entry in settings for argument in ("--set", entry)]
    command = ("-m", "assay", "study", "run", "--config", "quickstart", *sets)
    with TemporaryDirectory(prefix=".spine-", dir=scratch) as folder:
        elapsed = elapsed_s(*command, "--out", str(Path(folder).resolve()))
        if not list(Path(folder).glob("quickstart/*/report.md")):
            raise RuntimeError("the quickstart study ended without a report")
    return elapsed
