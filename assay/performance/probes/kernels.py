"""Kernels that ran in a forward call, their time, and the hardware that the longest one takes.

A declared backend (KERNELS) that did not run is a failure. On a CPU operators stand for kernels.
"""

import importlib.util
from collections.abc import Sequence
from statistics import median

from assay.host import Host
from assay.instruments.operation import Operation, backend_problem, counted, in_words
from assay.instruments.out_of_memory import ran_out
from assay.instruments.reading import Reading
from assay.performance.profile import binary, occupancy, trace
from assay.performance.profile.trace import Kernel
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.workload import Workload

INSTRUMENTS = ("profiler",)
CALLS = 5
# Facts about the longest kernel: metric, unit, and its field; from the profiler or the binary.
_HARDWARE = (
    ("kernel_registers", "count", "registers"),
    ("kernel_shared_bytes", "B", "shared_bytes"),
    ("kernel_occupancy", "ratio", "occupancy"),
)
_BINARY = (("kernel_spills", "spills"), ("kernel_tensor_ops", "tensor_operations"))
_ESTIMATE = "from its registers, shared memory, threads and blocks, and the device's"
_NO_ESTIMATE = "the profiler does not report it for this kernel"


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Times and names of what ran, facts about the longest kernel, and copies of the inputs."""
    return [*_ran(call), _copies(call).measurement("input_copy_bytes", "B")]


def _ran(call: SequenceSubject) -> list[Measurement]:
    if call.device == "cpu":
        return _on_cpu(call)
    if importlib.util.find_spec("torch") is None:
        return _unknown("torch, whose profiler reads the kernels of all frameworks, is missing")
    from assay.performance.profile import device

    try:
        calls = device.profiled(call, before=call.framework.flusher(call.device), calls=CALLS)
    except trace.Unclear as error:
        return _unknown(str(error))
    if not all(calls):
        return _unknown("the profiler saw no kernel in at least one call")
    return on_device(call, calls)


def on_device(call: SequenceSubject, calls: Sequence[Sequence[Kernel]]) -> list[Measurement]:
    """Measurements from the device events of some calls."""
    used = sorted({stream for kernels in calls for stream in trace.streams(kernels)})
    about = (
        f"torch.profiler: device events of {len(calls)} calls, caches emptied before each; "
        f"on {len(used)} stream{'s' if len(used) != 1 else ''} ({', '.join(map(str, used))})"
    )
    measurements = [
        _timed(
            "device_ms", [trace.busy_ms(kernels) for kernels in calls], f"{about}; sum of durations"
        ),
        _timed(
            "device_span_ms",
            [trace.span_ms(kernels) for kernels in calls],
            f"{about}; first to last",
        ),
        _named(
            call, _proper(calls[-1]), [k for kernels in calls for k in kernels], _differing(calls)
        ),
    ]
    main = trace.longest(calls[-1])
    if main is None:
        return [*measurements, *_facts_unknown("no kernel ran, only copies and fills")]
    return measurements + _facts(main, call.device)


def _on_cpu(call: SequenceSubject) -> list[Measurement]:
    """Operators by name; nothing here is a kernel."""
    ran = call.framework.operations(call.apply, call.inputs)
    reason = "there are no kernels on a CPU"
    absent = [
        Reading(value=None, reason=reason).measurement(metric, "ms")
        for metric in ("device_ms", "device_span_ms")
    ]
    return [*absent, _named(call, counted(ran), ran), *_facts_unknown(reason)]


def _named(
    call: SequenceSubject, once: Sequence[Operation], ran: Sequence[Operation], note: str = ""
) -> Measurement:
    """Number of kernels of one call, by name; failed where a declared backend is not among them."""
    kind = next((device.kind for device in call.host.devices), "cpu")
    problem = backend_problem(call.implementation.kernels.get(kind), ran)
    return Measurement(
        metric="kernels",
        value=len(once),
        unit="count",
        source=(in_words(once) or "nothing ran") + note,
        status="failed" if problem else "ok",
        reason=problem,
        cause="another backend was picked than the one it is named for" if problem else None,
        level="kernel",
    )


def _proper(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Without copies and fills, which the times count all the same."""
    return [kernel for kernel in kernels if kernel.category == trace.KERNEL]


def _differing(calls: Sequence[Sequence[Kernel]]) -> str:
    numbers = sorted({len(_proper(kernels)) for kernels in calls})
    return "" if len(numbers) == 1 else f"; from {numbers[0]} to {numbers[-1]} in a call"


def _timed(metric: str, samples: list[float], source: str) -> Measurement:
    return Measurement(
        metric=metric,
        value=median(samples),
        unit="ms",
        samples=samples,
        source=source,
        level="kernel",
    )


def _facts(main: Kernel, device: str) -> list[Measurement]:
    """Of the longest kernel: from the profiler, and from its binary where that can be read."""
    measurements = []
    for metric, unit, name in _HARDWARE:
        value, source = getattr(main, name), f"{main.name}; torch.profiler"
        if value is None and name == "occupancy":
            value, source = _occupancy(main, device), f"{main.name}; {_ESTIMATE}"
        reason = _NO_ESTIMATE if value is None else None
        measurements.append(
            Reading(value=value, source=source, reason=reason).measurement(metric, unit)
        )
    compiled = binary.of(main)
    for metric, name in _BINARY:
        value = getattr(compiled, name)
        reason = compiled.reason if value is None else None
        reading = Reading(value=value, source=f"{main.name}; compiled binary", reason=reason)
        measurements.append(reading.measurement(metric, "count"))
    return measurements


def _occupancy(main: Kernel, device: str) -> float | None:
    """Estimate the occupancy where the profiler has none."""
    if device == "cpu":
        return None
    import torch

    unit = occupancy.multiprocessor(torch.cuda.get_device_properties(device))
    return None if unit is None else occupancy.estimated(main, unit)


def _facts_unknown(reason: str) -> list[Measurement]:
    metrics = [(metric, unit) for metric, unit, _ in _HARDWARE]
    metrics += [(metric, "count") for metric, _ in _BINARY]
    return [Reading(value=None, reason=reason).measurement(*metric) for metric in metrics]


def _unknown(reason: str) -> list[Measurement]:
    absent = (("device_ms", "ms"), ("device_span_ms", "ms"), ("kernels", "count"))
    measurements = [Reading(value=None, reason=reason).measurement(*metric) for metric in absent]
    return measurements + _facts_unknown(reason)


def _copies(call: SequenceSubject) -> Reading:
    """A call that cannot run while its operators are watched has an unknown number of copies."""
    try:
        return call.framework.input_copies(call.apply, call.inputs)
    except Exception as error:
        if ran_out(error):
            raise
        message = f"{type(error).__name__}: {error}".partition("\n")[0]
        return Reading(
            value=None, reason=f"it does not run while its operators are watched: {message}"
        )
