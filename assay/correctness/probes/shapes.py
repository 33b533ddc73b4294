"""Awkward shapes: lengths around tile sizes, unequal lengths, head groups, dimensions, batches."""

from dataclasses import replace

from assay.correctness import judge
from assay.correctness.cases import HEADS, LENGTHS, LONG, CaseGenerator
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

UNEQUAL = ((1, 64), (1, 113), (63, 64), (64, 63), (65, 113), (113, 65), (17, 257), (257, 17))
LONG_UNEQUAL = ((1, 1023), (113, 1023), (1023, 113), (64, 1024), (1025, 1024))
HEAD_DIMS = (8, 16, 24, 32, 40, 64, 80, 96, 128, 160, 192, 256)


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return each axis swept by itself, every case causal and full, and the shapes of models,
    causal; dtypes take turns."""
    quick = generator.quick
    equal = (1, 63, 64, 65, 113) if quick else (*LENGTHS, *LONG)
    unequal = UNEQUAL[1:6:2] if quick else (*UNEQUAL, *LONG_UNEQUAL)
    pairs = [*((n, n) for n in equal), *unequal]
    specs = [generator.spec(query_length=q, key_length=k, kv_heads=1) for q, k in pairs]
    if not quick:
        heads = (*HEADS, (16, 2))
        specs += [generator.spec(batch=2, heads=h, kv_heads=kv, length=33) for h, kv in heads]
        specs += [generator.spec(head_dim=d, length=65, scale_percent=130) for d in HEAD_DIMS]
        specs += [generator.spec(batch=b, length=17) for b in (2, 3, 5, 7, 16)]
    dtypes = generator.dtypes
    return (
        generator.of_models()
        + generator.long()
        + [
            replace(spec, dtype=dtypes[(number + shift) % len(dtypes)], causal=causal)
            for number, spec in enumerate(specs)
            for shift, causal in enumerate((True, False))
        ]
    )


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output, LSE and gradients."""
    return [judge.worst("shapes", judge.compare_all(call))]
