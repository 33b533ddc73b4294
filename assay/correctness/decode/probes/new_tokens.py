"""Several new tokens: each sees the keys up to its own, which is one of the last."""

from collections.abc import Sequence
from dataclasses import replace

from assay.correctness import judge
from assay.correctness.decode.cases import DecodeCases
from assay.correctness.diagnosis import masks
from assay.correctness.diagnosis.forward import attend
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.contract import TensorComparison
from assay.subjects.decode import DecodeSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_CAUSE = "the new tokens are not the last of the keys: token i of T sees keys up to length - T + i"


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return few new tokens and many, behind keys and with none before them."""
    pairs = ((1, 33), (2, 33), (16, 16), (16, 65), (2, 129))
    lengths = [{"query_length": new, "key_length": keys} for new, keys in pairs]
    return generator.by_turns(*({"group": 2, **each} for each in lengths))


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output and LSE of all new tokens."""
    comparisons = judge.compare_forward(call)
    return [judge.worst("new_tokens", comparisons, cause=_cause(call, comparisons))]


def _cause(call: DecodeSubject, comparisons: Sequence[TensorComparison]) -> str | None:
    """The cause, where the wrong output is that of attention with a misplaced causal mask."""
    out, spec = comparisons[0], call.workload.spec
    wanted = call.expected()
    if out.holds or out.actual is None or wanted.index is not None or spec.query_length == 1:
        return None
    for visible in masks.misplaced(spec).values():  # several may fit: few tokens tell them apart
        other = replace(wanted, result=attend(call.right, visible=visible))
        if judge.compare_values("out", out.actual, other, spec.dtype).holds:
            return _CAUSE
    return None
