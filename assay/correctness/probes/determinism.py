"""The same bits from the same inputs: call after call, in a second process, and backwards too."""

from msgspec.structs import replace

from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.records import verdicts
from assay.records.schema import Measurement
from assay.subjects.contract import Subject
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

IN_SECOND_PROCESS = True
_REPEATS = 4


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return several tiles of keys, so that there is an order of summation to change."""
    pairs = ((65, 129),) if generator.quick else ((65, 129), (130, 257), (33, 600))
    first, half = generator.dtypes[0], generator.half()
    return [
        generator.spec(
            batch=2, heads=4, kv_heads=kv, query_length=q, key_length=k, causal=causal, dtype=dtype
        )
        for q, k in pairs
        for dtype, causal, kv in ((first, True, 4), (half, False, 2))
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare bits of the forward, and of the backward unless it is declared not repeatable.

    What differs is put down to an order of summation only where the result is right: that explains
    rounding, and no more.
    """
    if not getattr(call.implementation, "deterministic", True):  # a decode kernel may say so
        return [judge.unsupported("determinism", "declared not repeatable: DETERMINISTIC = False")]
    measurements = [_repeated_forward(call)]
    if call.in_second_process:
        measurements.append(_second_process(call, workload.spec))
    if call.has_backward and call.implementation.deterministic_backward:
        measurements.append(_repeated_backward(call))
    failed = [measurement for measurement in measurements if measurement.status == "failed"]
    return failed[:1] or measurements[:1]


def _repeated_forward(call: Subject) -> Measurement:
    if len({judge.digest(call) for _ in range(_REPEATS)}) > 1:
        text = f"{_REPEATS} calls on the same inputs give outputs that differ in their bits"
        cause = "the order of summation changes from call to call: atomics, or a random order"
        return judge.failed("determinism", text, cause if judge.is_right(call) else None)
    return judge.passed("determinism")


def _second_process(call: SequenceSubject, spec: WorkloadSpec) -> Measurement:
    result = call.in_second_process(spec)
    if result is None:
        return judge.unsupported("determinism", "there is no second process to compare with")
    if result.error:
        text = f"in another process the same call raises {result.error}"
        failed = judge.failed("determinism", text, "it works in the first process only")
        return replace(failed, data=verdicts.DEVICE_ERROR) if result.of_device else failed
    if result.digest != judge.digest(call):
        text = "another process gives an output for the same inputs that differs in its bits"
        cause = "the result depends on the process: a hash, its id, its environment or the time"
        return judge.failed("determinism", text, cause if judge.is_right(call) else None)
    return judge.passed("determinism")


def _repeated_backward(call: Subject) -> Measurement:
    bits: dict[str, set[bytes]] = {name: set() for name in call.gradient_names}
    for _ in range(_REPEATS):
        _, gradients = call.gradients()
        for name, gradient in zip(call.gradient_names, gradients, strict=True):
            arrays = [a for a in judge.arrays(gradient) if call.framework.is_array(a)]
            bits[name].add(b"".join(map(call.framework.bits, arrays)))
    differing = [name for name, variants in bits.items() if len(variants) > 1]
    if differing:
        text = (
            f"{_REPEATS} backward passes on the same inputs give {', '.join(differing)} that "
            "differ in their bits"
        )
        cause = (
            "the order of summation changes from call to call, as with atomics; if that is "
            "intended, declare DETERMINISTIC_BACKWARD = False"
        )
        if judge.is_right(call):
            return judge.failed("determinism", verdicts.undeclared(text), cause)
        return judge.failed("determinism", text)
    return judge.passed("determinism")
