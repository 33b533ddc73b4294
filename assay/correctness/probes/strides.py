"""Inputs and dO that are not contiguous in memory: as models make them, and with gaps."""

from dataclasses import replace

from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import LAYOUTS, OF_DO, OWN_LAYOUTS, WorkloadSpec
from assay.workloads.workload import Workload

_CAUSE = "memory is read as if it were contiguous: strides or the offset are not used"
_OWN_CAUSE = "{0} is read with strides not its own: of contiguous memory or another tensor"


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return each layout of q, k and v together, causal and full, in a quick check causal only;
    each of dO, where there is a backward; and of q, k and v alone each, in a quick check few.
    dtypes take turns.

    Each layout of dO has a batch of its own: torch keeps cuDNN's graphs by shape, and misreads a
    second layout of dO of one shape. On a GPU no dO is one element off: torch reads it in vectors
    there, and a misaligned address ends the process.
    """
    masks = (True,) if generator.quick else (True, False)
    together = [(layout, causal) for layout in LAYOUTS[1:] for causal in masks]
    few = ("transposed", "sliced") if generator.quick else LAYOUTS
    left_out = {"expanded", "dO-offset"} if generator.gpu else {"expanded"}
    own = [layout for layout in OWN_LAYOUTS if not {layout, layout.partition("-")[2]} & left_out]
    alone = [
        (layout, not turn % 2)
        for turn, layout in enumerate(own)
        if (generator.backward if layout in OF_DO else layout.partition("-")[2] in few)
    ]
    return [
        generator.spec(
            batch=4 + OF_DO.index(layout) if layout in OF_DO else 3,
            heads=4,
            kv_heads=2 if causal else 4,
            query_length=33,
            key_length=65 if causal else 33,
            dtype=generator.dtypes[number % len(generator.dtypes)],
            causal=causal,
            layout=layout,
        )
        for number, (layout, causal) in enumerate(together + alone)
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output, LSE and gradients; unsupported where contiguous memory is wrong too."""
    comparisons = judge.compare_all(call)
    if not all(c.holds for c in comparisons):
        plain = call.on(replace(workload, spec=replace(workload.spec, layout="plain")))
        if not judge.is_right(plain):
            return [judge.unsupported("strides", "it is wrong in contiguous memory too")]
    tensor, _, name = workload.spec.layout.rpartition("-")
    prefix = f"with {tensor} alone in {name} memory, " if tensor else f"in {name} memory, "
    cause = _OWN_CAUSE.format(tensor) if tensor else _CAUSE
    return [judge.worst("strides", comparisons, prefix, cause)]
