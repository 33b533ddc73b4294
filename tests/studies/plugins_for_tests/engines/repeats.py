"""Cells on this machine whose clock reads the same in each round of the forward pass."""

from dataclasses import replace

import msgspec

from assay.studies.engines import local


def run(jobs):
    for result in local.run(jobs):
        yield replace(result, measurements=[_repeated(m) for m in result.measurements])


def _repeated(measurement):
    if measurement.metric != "latency_ms" or not measurement.samples:
        return measurement
    samples = [measurement.samples[0]] * len(measurement.samples)
    return msgspec.structs.replace(measurement, samples=samples)
