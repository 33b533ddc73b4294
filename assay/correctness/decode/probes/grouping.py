"""Query heads that share a kv head: none, few and many of them; heads of models."""

from assay.correctness import judge
from assay.correctness.cases import MODEL_HEADS
from assay.correctness.decode.cases import GROUPS, DecodeCases
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.decode import DecodeSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return each size of a group, with one new token and with two, and the heads of models, of
    which a latent layout takes those with one kv head."""
    sizes = [{"group": group, "key_length": 40} for group in GROUPS]
    sizes.append({"group": 3, "query_length": 2, "key_length": 40})
    for heads, kv_heads in MODEL_HEADS:
        if kv_heads == 1 or not generator.latent:
            models = {"heads": heads, "kv_heads": kv_heads, "batch": 1}
            sizes.append({**models, "key_length": 40})
    return generator.by_turns(*sizes)


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output and LSE of all heads."""
    return [judge.worst("grouping", judge.compare_forward(call))]
