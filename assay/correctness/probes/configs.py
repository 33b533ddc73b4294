"""Every kernel configuration that an implementation may pick, not only the one it does pick."""

from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return lengths that leave a tail in tiles of any size, causal and full; on a CPU each head
    dimension in one dtype."""
    if not generator.configs:
        return []
    few = generator.quick or not generator.gpu
    pairs = ((113, 113), (65, 130) if few else (200, 300))
    dtypes, specs = generator.dtypes, []
    for number, dim in enumerate((32, 64) if few else (16, 64, 80, 128, 256)):
        queries, keys = pairs[number % 2]
        specs += [
            generator.spec(
                query_length=queries,
                key_length=keys,
                head_dim=dim,
                kv_heads=1,
                causal=causal,
                dtype=dtype,
            )
            for causal in (True, False)
            for dtype in (dtypes if generator.gpu else (dtypes[number % len(dtypes)],))
        ]
    return specs


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output, LSE and gradients of each configuration that takes the workload."""
    measurements = []
    for name in call.implementation.configs:
        try:
            comparisons = judge.compare_all(call, config=name)
        except ValueError:  # the configuration itself refuses this dtype or head dimension
            continue
        measurements.append(judge.worst("configs", comparisons, f"with configuration {name}, "))
    if not measurements:
        return [judge.failed("configs", "no configuration takes this workload")]
    return measurements
