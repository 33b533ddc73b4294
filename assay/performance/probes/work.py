"""Operations, bytes and KV-cache bytes of a workload by formula, to hold measured times against."""

from dataclasses import asdict

from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.contract import Subject


def measure(subject: Subject, workload: object, host: Host) -> list[Measurement]:
    """The same for every implementation: what was asked, not what one of them did."""
    work, formulas = subject.work()
    return [
        Measurement(
            metric=metric,
            value=value,
            unit="FLOP" if metric.endswith("flops") else "B",
            source=formulas[metric],
            level=subject.level,
        )
        for metric, value in asdict(work).items()
    ]
