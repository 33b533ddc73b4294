"""Cells on a machine that calls itself elsewhere."""

from dataclasses import replace

from assay.studies.attempt import attempt

NAME = "0123456789abcdef"


def hosts():
    return {NAME}


def run(jobs):
    for job in jobs:
        yield replace(attempt(job), host=NAME)
