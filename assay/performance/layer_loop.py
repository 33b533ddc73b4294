"""Runs timed probes over layers side by side on one workload, each checked first.

A layer whose output or gradient is wrong is not timed. Where only the backward pass runs out of
memory, the forward pass is timed all the same.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict
from types import ModuleType

import msgspec

from assay import plugins
from assay.correctness import judge
from assay.correctness import layers as layer_check
from assay.correctness.judge import Comparison
from assay.correctness.layers import Expected, LayerAnswers
from assay.frameworks.jax import memory as xla
from assay.host import Host
from assay.performance import rounds
from assay.performance.loop import Request
from assay.records.schema import Measurement
from assay.subjects import layer_inputs, layer_work
from assay.subjects.layer import LayerCall, bind, load, place
from assay.subjects.layer_inputs import LayerInputs
from assay.subjects.outcome import Begin, outcome_of

FORWARD = ("latency",)
BACKWARD = ("backward", "training")
PROBES = (*FORWARD, *BACKWARD)

# By probe, the calls that it times.
_Calls = dict[str, dict[str, LayerCall]]


def run(request: Request, host: Host) -> Iterator[Begin | Measurement]:
    """Of each subject what was asked of it, whether it is right and how long it takes."""
    inputs = layer_inputs.make(request.workload)
    for item in _run(request, inputs, host):
        if isinstance(item, Measurement):
            named = item.workload or inputs.identity
            yield msgspec.structs.replace(item, workload=named, level="layer")
        else:
            yield item


def _run(request: Request, inputs: LayerInputs, host: Host) -> Iterator[Begin | Measurement]:
    probes = {name: plugins.load(plugins.find("probes", name)) for name in request.probes}
    bound: dict[str, LayerCall] = {}
    for subject in request.subjects:
        yield Begin(subject)
        try:
            bound[subject], found = _prepared(subject, inputs, request, host, bound)
        except Exception as error:
            yield _outcome(error, subject, request, request.probes)
            continue
        for measurement in found:
            yield msgspec.structs.replace(measurement, subject=subject)
    wanted = None
    calls: _Calls = {name: {} for name in request.probes}
    for subject, call in bound.items():
        yield Begin(subject)
        try:
            wanted = wanted or layer_check.expected(inputs, request.device)
            yield from _checked(call, wanted, request, calls)
        except Exception as error:
            yield _outcome(error, subject, request, request.probes)
    for name, probe in probes.items():
        if wanted and calls[name]:
            yield from _timed(name, probe, calls[name], LayerAnswers(wanted), request, host)


def _prepared(
    subject: str, inputs: LayerInputs, request: Request, host: Host, bound: dict[str, LayerCall]
) -> tuple[LayerCall, list[Measurement]]:
    """A call, how long it took to compile, and what is known of it before it runs."""
    found = load(subject, inputs, host=host, device=request.device, folders=request.folders)
    shared = next((call.placed for call in bound.values()), None) or place(inputs, request.device)
    start = time.perf_counter()
    call = bind(found, inputs, shared, request.device)
    program = call.forward_program()
    elapsed_ms = (time.perf_counter() - start) * 1e3
    source = "host clock: tracing and compiling the forward pass"
    told = [
        Measurement(metric="prepare_ms", value=elapsed_ms, unit="ms", source=source),
        xla.peak_of(program).measurement("forward_peak_bytes", "B"),
    ]
    for metric, value in asdict(layer_work.of(inputs.spec)).items():
        unit = "FLOP" if metric.endswith("flops") else "B"
        source = layer_work.SOURCES[metric]
        told.append(Measurement(metric=metric, value=value, unit=unit, source=source))
    return call, told


def _checked(
    call: LayerCall, wanted: Expected, request: Request, calls: _Calls
) -> Iterator[Measurement]:
    """The verdicts on a layer; where they are good it is put among the `calls` to be timed."""
    forward, backward = ([n for n in request.probes if n in group] for group in (FORWARD, BACKWARD))
    out = call()
    found = [layer_check.compare("out", out, wanted, call)]
    del out
    if backward and found[0].holds:
        try:
            program = call.training_program()
            out, gradients = program()
            found += [
                layer_check.compare("dx", gradients[0], wanted, call),
                layer_check.weights_agree(call, out, gradients),
            ]
            peak = xla.peak_of(program.func).measurement("training_peak_bytes", "B")
            yield msgspec.structs.replace(peak, subject=call.name)
        except Exception as error:
            yield _outcome(error, call.name, request, backward)
            backward = []
    for measurement in judge.measurements(found):
        yield msgspec.structs.replace(measurement, subject=call.name, source=layer_check.SOURCE)
    if wrong := next((one for one in found if not one.holds), None):
        yield _refused(call.name, request, wrong)
        return
    for name in (*forward, *backward):
        calls[name][call.name] = call


def _timed(
    name: str,
    probe: ModuleType,
    calls: dict[str, LayerCall],
    answers: LayerAnswers,
    request: Request,
    host: Host,
) -> Iterator[Begin | Measurement]:
    """Interleaved rounds."""
    plan = rounds.Plan(warmup=request.warmup, rounds=request.rounds, budget_s=request.budget_s)
    workload = next(iter(calls.values())).workload
    for item in rounds.interleaved(probe, calls, workload, host, plan, answers):
        if isinstance(item, str):
            yield Begin(item)
        elif isinstance(item, rounds.Failed):
            yield _outcome(item.error, item.subject, request, [name])
        else:
            yield msgspec.structs.replace(item[1], subject=item[0])


def _refused(subject: str, request: Request, wrong: Comparison) -> Measurement:
    return Measurement(
        subject=subject,
        metric="+".join(request.probes),
        value=None,
        unit="",
        status="refused",
        reason=f"not timed: it is wrong: {wrong.problem}",
    )


def _outcome(
    error: Exception, subject: str, request: Request, probes: list[str] | tuple[str, ...]
) -> Measurement:
    """A failure under the names of the probes that it keeps from running."""
    metric = "+".join(probes)
    found = outcome_of(error, subject=subject, metric=metric, workload=request.workload)
    return msgspec.structs.replace(found, alone=len(request.subjects) == 1)
