"""How long one forward call takes, from an idle device to a finished result.

The loop calls this once for each implementation in every round, so that the samples of
different implementations are paired round by round.
"""

import time

from assay.bench.call import Call
from assay.host import Host
from assay.records.schema import Measurement
from assay.workloads.synthetic import Workload

PAIRED = True


def measure(call: Call, workload: Workload, host: Host) -> list[Measurement]:
    """One sample in milliseconds. The output stays alive until the clock has stopped."""
    call.synchronize()
    start = time.perf_counter_ns()
    output = call()
    call.synchronize()
    elapsed_ms = (time.perf_counter_ns() - start) / 1e6
    del output
    return [
        Measurement(
            metric="latency_ms",
            value=elapsed_ms,
            unit="ms",
            samples=[elapsed_ms],
            level="kernel",
            source="host clock around one call, device synchronised before and after",
        )
    ]
