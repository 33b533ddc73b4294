"""A second call on the same tensors with other numbers in them, as a cache has at the next step."""

from dataclasses import replace

from assay.captures.inputs import make
from assay.correctness import judge
from assay.correctness.decode.cases import DecodeCases
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.decode import DecodeSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_OTHER_SEED = 1000
_CAUSE = "the result of an earlier call is given again, or something that was made for it"
_FAR = 8.0  # budgets: other numbers of the same kind do not make so much of a small error


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return a few tiles of keys."""
    return generator.by_turns({"key_length": 70, "group": 2})


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare a call, one on other numbers in the same memory, and look for changed inputs."""
    framework = call.framework
    before = [framework.checksum(array) for array in call.inputs]
    comparisons = judge.compare_forward(call)
    if [framework.checksum(array) for array in call.inputs] != before:
        return [judge.failed("fresh_values", "it writes into q or into the cache")]
    drawn = make(replace(workload.spec, seed=workload.spec.seed + _OTHER_SEED))
    other = call.on(replace(drawn, lengths=workload.lengths))
    for array, values in zip(call.inputs, other.inputs, strict=True):
        framework.overwrite(array, values)
    second = [judge.compare("out", call(), call, other.expected())]
    call.restore()
    held = all(c.holds for c in comparisons)
    far = second[0].share is None or second[0].share > _FAR
    cause = _CAUSE if held and far else None
    prefix = "after other numbers were written into its inputs, " if held else ""
    return [judge.worst("fresh_values", [*comparisons, *second], prefix, cause)]
