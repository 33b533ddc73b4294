"""Cells two at a time, the last first, each in a process of its own."""

from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from assay.studies.attempt import attempt


def run(jobs):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(attempt, job) for job in reversed(list(jobs))]
        for done in as_completed(waiting):
            yield done.result()
