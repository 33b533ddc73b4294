"""Cells on this machine, one after another: nothing else of ours runs while one is measured."""

from collections.abc import Iterable, Iterator

from assay.studies.attempt import attempt
from assay.studies.job import CellResult, Job


def run(jobs: Iterable[Job]) -> Iterator[CellResult]:
    """The result of each job, as soon as it is done."""
    return map(attempt, jobs)
