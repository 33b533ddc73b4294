"""Cells on this machine whose clock says that a forward pass takes a few nanoseconds."""

from dataclasses import replace

import msgspec

from assay.studies.engines import local


def run(jobs):
    for result in local.run(jobs):
        yield replace(result, measurements=[_hurried(m) for m in result.measurements])


def _hurried(measurement):
    if measurement.metric != "latency_ms" or not measurement.samples:
        return measurement
    samples = [sample / 1e6 for sample in measurement.samples]
    value = measurement.value / 1e6
    return msgspec.structs.replace(measurement, samples=samples, value=value)
