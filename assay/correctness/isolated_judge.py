"""Values judged in a process that never loads the implementation.

A fork loads it, makes its calls and leaves the bytes of what they gave in files. This process reads
bytes, and compares them with what it expects of the same workload. Whatever the implementation does
to its own process, it has no hand in the comparison.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from assay import host, plugins
from assay.attention import interpreted, precision
from assay.captures.inputs import make
from assay.correctness import judge
from assay.instruments import forks
from assay.instruments.out_of_memory import ran_out
from assay.plugins import Plugin
from assay.records.schema import Measurement
from assay.subjects import sequence
from assay.subjects.contract import Expected, TensorComparison
from assay.subjects.expected import expected
from assay.subjects.outcome import Begin, Unsupported, WrongAnswer, outcome_of
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

PROBES = ("accuracy", "gradients")  # what is judged so
SOURCE = "judged in a process of its own"
_KIND = "sequence"
_PATIENCE_S = 600.0
_FORWARD, _GRADIENTS = ("out", "lse"), ("dq", "dk", "dv")
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


class NoAnswer(WrongAnswer):
    """The process of an implementation ended, or gave something else than an answer."""


def run(
    names: Sequence[str],
    spec: WorkloadSpec,
    *,
    probes: Sequence[str],
    device: str,
    folders: Sequence[Path] = (),
) -> Iterator[Begin | Measurement]:
    """Errors of each implementation over their budgets, by tensor."""
    workload = make(spec)
    for name in names:
        yield Begin(name)
        try:
            comparisons = _compared(name, workload, probes, device, folders)
        except Exception as error:
            yield outcome_of(error, subject=name, metric=PROBES[0], workload=spec)
            continue
        about = {"subject": name, "workload": workload.identity}
        for measurement in judge.measurements(comparisons):
            yield msgspec.structs.replace(measurement, **about, source=SOURCE)


def _compared(
    name: str, workload: Workload, probes: Sequence[str], device: str, folders: Sequence[Path]
) -> list[TensorComparison]:
    """Have a fork call it, and compare what it left. Raises Unsupported and NoAnswer."""
    plugin = plugins.find(_KIND, name, folders)
    with tempfile.TemporaryDirectory(prefix="assay-judged-") as folder:
        request = {
            "name": str(plugin.path.resolve()),
            "spec": workload.spec.as_dict(),
            "device": device,
            "folder": folder,
            "backward": "gradients" in probes,
        }
        asked = "assay.correctness.isolated_judge:answer"
        answers = forks.ask(asked, request, imports=_framework(plugin), timeout_s=_PATIENCE_S)
        if "unsupported" in answers.values:
            raise Unsupported(str(answers.values["unsupported"]))
        if answers.ending or "given" not in answers.values:
            raise NoAnswer(answers.values.get("error") or answers.ending or "it gave nothing")
        wanted, tensors = expected(workload, device, _precision(plugin)), _tensors(plugin, device)
        judged = [t for t in tensors if t in _FORWARD or "gradients" in probes]
        return [_comparison(Path(folder, t), t, workload, wanted) for t in judged]


def _comparison(file: Path, tensor: str, workload: Workload, wanted: Expected) -> TensorComparison:
    """One tensor, as the bytes of a file, against what is expected."""
    dtype = "float32" if tensor == "lse" else workload.spec.dtype
    shape = _shapes(workload)[tensor]
    content = file.read_bytes() if file.is_file() else b""
    size = int(np.prod(shape)) * _BYTES[dtype]
    if len(content) != size:
        problem = f"{tensor} has {len(content)} bytes, wanted {size}: {dtype} of shape {shape}"
        if not content:
            problem += "; what a file cannot give, it says in literals: BACKWARD, ACCEPTS"
        return TensorComparison(tensor=tensor, problem=problem, source=SOURCE)
    values = _values(content, dtype).reshape(shape)
    if wanted.index is not None:
        if tensor != "lse" and not np.isfinite(values).all():
            problem = f"some values of {tensor} are not finite"
            return TensorComparison(tensor=tensor, problem=problem, source=SOURCE)
        values = values[wanted.index[tensor]]
    return judge.compare_values(tensor, values.astype(np.float64), wanted, workload.spec.dtype)


def _values(content: bytes, dtype: str) -> np.ndarray:
    if dtype != "bfloat16":
        return np.frombuffer(content, np.dtype(dtype))
    return (np.frombuffer(content, np.uint16).astype(np.uint32) << 16).view(np.float32)


def _shapes(workload: Workload) -> dict[str, tuple[int, ...]]:
    q, k, v = workload.q.shape, workload.k.shape, workload.v.shape
    return {"out": q, "lse": q[:3], "dq": q, "dk": k, "dv": v}


def _tensors(plugin: Plugin, device: str) -> list[str]:
    """Names of the tensors that a file says it gives, read and not run: gradients last."""
    stated = plugin.literals
    backward = device != "cpu" if stated["BACKWARD"] == "gpu" else bool(stated["BACKWARD"])
    forward = _FORWARD if "lse" in stated["ACCEPTS"] else _FORWARD[:1]
    return [*forward, *(_GRADIENTS if backward else ())]


def _framework(plugin: Plugin) -> list[str]:
    """Modules for all forks: ours alone, since a user's file may do anything."""
    framework = plugins.listing("frameworks").get(plugin.literals["FRAMEWORK"])
    return [plugins.module_name(framework.path)] if framework and not framework.missing else []


def _precision(plugin: Plugin) -> precision.Precision:
    """Literals that its file declares, by reading it."""
    stated = plugin.literals
    return precision.parse(stated["FLOAT32"], stated["FP8"], place=str(plugin.path))


def answer(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """In the fork: call the implementation, leave the bytes of what it gives, and say of what."""
    try:
        call = sequence.bind(
            request["name"],
            make(WorkloadSpec(**request["spec"])),
            host=host.inspect(commit=False),
            device=request["device"],
        )
        given = dict(_given(call, backward=request["backward"]))
    except Unsupported as refusal:
        yield {"unsupported": str(refusal)}
        return
    except Exception as error:
        if ran_out(error):
            raise
        if words := interpreted.refusal_of(error):
            yield {"unsupported": words}
            return
        yield {"error": f"{type(error).__name__}: {error}"}
        return
    for tensor, array in given.items():
        if problem := call.form_problem(tensor, array):
            yield {"error": problem}
            return
        own = call.implementation.layout == "BSHD" and len(array.shape) == 4
        plain = call.framework.swapped(array, 1, 2) if own else array
        Path(request["folder"], tensor).write_bytes(call.framework.bits(plain))
    yield {"given": list(given)}


def _given(call: sequence.SequenceSubject, *, backward: bool) -> Iterator[tuple[str, Any]]:
    if "lse" in call.accepts:
        yield from zip(_FORWARD, call.apply(*call.inputs, lse=True), strict=True)
    else:
        yield "out", call()
    if backward and call.has_backward:
        yield from zip(call.gradient_names, call.gradients()[1], strict=True)
