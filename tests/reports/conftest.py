"""Runs to report on."""

import pytest
from build_run import append, begin, checked, end, latency

from assay.records.schema import Measurement


@pytest.fixture
def run(tmp_path):
    """A run that measured something of every kind: ok, failed, oom, unsupported, unknown."""
    made = begin(tmp_path / "run")
    bandwidth = Measurement(
        metric="copy_bandwidth", value=11.0, unit="GB/s", subject="cpu", samples=[10.0, 11.0, 12.0]
    )
    append(made, "host", "cpu", bandwidth)
    end(made, "host")
    errors = [
        checked(
            "sdpa",
            64,
            metric=f"error_over_budget_{tensor}",
            value=value,
            status="failed" if value > 1 else "ok",
            reason="dq is <script>alert(1)</script> over budget" if value > 1 else None,
        )
        for tensor, value in (("out", 0.25), ("dq", 4.5))
    ]
    append(made, "check", "k64/sdpa", *errors)
    for subject, length in (("eager", 128), ("sdpa", 128), ("sdpa", 256)):
        append(made, "check", f"k{length}/{subject}", checked(subject, length))
    end(made, "check", status="failed", reason="1 of 4 cells failed")
    append(
        made, "bench", "k128", latency("eager", [2.0, 4.0, 8.0]), latency("sdpa", [1.0, 2.0, 4.0])
    )
    append(
        made,
        "bench",
        "k256",
        latency("a", [], 256, status="unsupported", reason="needs a GPU"),
        latency("eager", [], 256, status="oom", reason="16 GiB wanted, 7 GiB free"),
        latency("sdpa", [1.5, 2.5, 3.5], 256),
    )
    return made
