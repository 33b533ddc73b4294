"""The longest sequence that fits: ever longer ones are tried until memory runs out."""

import gc
from collections.abc import Callable
from dataclasses import replace

from assay.instruments.out_of_memory import held_by_others, ran_out
from assay.records.schema import Measurement
from assay.subjects.outcome import Unsupported
from assay.subjects.sequence import SequenceSubject

STEP = 64  # tokens; lengths are multiples of it
_RESOLUTION = 256  # the search ends within one part of so many
_LONGEST = 1 << 20

METRICS = {"oom_length": False, "training_oom_length": True}


def measure(call: SequenceSubject) -> list[Measurement]:
    """The longest sequences for the forward pass and for training, in tokens."""
    if not call.host.accelerators:
        raise Unsupported("memory runs out at the end of a search on a GPU only")
    limits = [_limit(call, metric, training) for metric, training in METRICS.items()]
    return [*limits, _overhead(call)]


def _limit(call: SequenceSubject, metric: str, training: bool) -> Measurement:
    if training and not call.has_backward:
        reason = "it says that it has no backward here"
        return Measurement(
            metric=metric, value=None, unit="tokens", status="unsupported", reason=reason
        )
    try:
        length = longest(
            lambda length: _fits(call, length, training), call.workload.spec.key_length
        )
    except Unsupported as refusal:
        reason = f"it refuses longer sequences before memory runs out: {refusal}"
        return Measurement(
            metric=metric, value=None, unit="tokens", status="unsupported", reason=reason
        )
    source = f"the longest that ran; found within {length // _RESOLUTION + STEP} tokens"
    return Measurement(metric=metric, value=length, unit="tokens", source=source, level="kernel")


def longest(fits: Callable[[int], bool], start: int) -> int:
    """The longest length that fits, by doubling and halving; raises Unsupported without end."""
    low, high = 0, max(STEP, start // STEP * STEP)
    while fits(high):
        low, high = high, 2 * high
        if high > _LONGEST:
            raise Unsupported(f"{low:,} tokens fit, and more are not tried")
    while high - low > max(STEP, low // _RESOLUTION):
        middle = (low + high) // 2 // STEP * STEP
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _fits(call: SequenceSubject, length: int, training: bool) -> bool:
    spec = replace(call.workload.spec, query_length=length, key_length=length)
    if refusal := call.implementation.refusal(spec, call.host):
        raise Unsupported(refusal)
    try:
        _try(call, length, training)
        return True
    except Exception as error:
        if not ran_out(error) or held_by_others(
            error
        ):  # then it is not the length that is too large
            raise
    finally:
        gc.collect()  # the error held on to what had been allocated
        call.framework.empty_cache(call.device)
    return False


def _try(call: SequenceSubject, length: int, training: bool) -> None:
    axis = 1 if call.implementation.layout == "BSHD" else 2
    arrays = (*call.inputs, call.grad_out) if training else call.inputs
    grown = tuple(call.framework.stretched(array, axis, length) for array in arrays)
    if training:
        call.framework.trained(call.apply, grown[:3], grown[3], {})
    else:
        call.apply(*grown)
    call.synchronize()


def _overhead(call: SequenceSubject) -> Measurement:
    """Bytes on the device beside tensors: the context, kernels, libraries."""
    used = call.framework.device_overhead(call.device)
    metric, unit = "device_overhead_bytes", "B"
    if used is None:
        reason = f"{call.implementation.framework} does not tell what a device holds beside arrays"
        return Measurement(metric=metric, value=None, unit=unit, reason=reason)
    source = "used memory of the device less what torch's allocator reserves"
    return Measurement(metric=metric, value=used, unit=unit, source=source)
