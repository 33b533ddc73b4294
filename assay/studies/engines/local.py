"""Cells on this machine, one after another: nothing else of ours runs while one is measured."""

from collections.abc import Iterable, Iterator

from assay.records.schema import Measurement
from assay.studies.attempt import Job, attempt


def run(jobs: Iterable[Job]) -> Iterator[tuple[Job, list[Measurement]]]:
    """Each job with its measurements, as soon as it is done."""
    for job in jobs:
        yield job, attempt(job)
