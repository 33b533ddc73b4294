"""Examination of models by the gates, in this process or in forked ones, as measurements.

An exception in a gate is a failure of that gate that names the line, with its stack on stderr; the
other gates are run.
Nothing here needs torch before a model is examined.
"""

import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from assay import plugins
from assay.correctness.models import user_models
from assay.correctness.models.selection import SelectedModel
from assay.errors import BadInput, unknown_name
from assay.instruments.parallel import map_forked
from assay.models.gpt2.config import format_options
from assay.records import foreign_text
from assay.records.schema import (
    MODEL_CACHE_BYTES,
    MODEL_PARAMETERS,
    MODEL_SECONDS,
    Measurement,
    WorkloadIdentity,
)
from assay.subjects.outcome import Begin

if TYPE_CHECKING:
    from assay.correctness.models.examined_model import ExaminedModel
    from assay.correctness.models.finding import Finding

GATES = "gates"  # the kind of plugin
_STATE = "state"  # the gate that qualifies others
_STATE_PUT_BACK = "judged with what each call leaves behind put back, see state"
_STATE_REMAINS = "calls leave something behind, see state, which may be a cause of this"
_LONGEST_MESSAGE = 400  # characters
_FULL_SIZE = "counted at GPT-2 124M size, built on the meta device"


def gate_names(folders: Sequence[Path] = ()) -> tuple[str, ...]:
    """Names of the gates in the order of tables, without loading any."""
    listed = plugins.listing(GATES, folders).values()
    ordered = sorted(listed, key=lambda plugin: (plugin.literals["ORDER"], plugin.name))
    return tuple(plugin.name for plugin in ordered)


@cache
def load_gates(folders: tuple[Path, ...] = ()) -> dict[str, ModuleType]:
    """Every gate by name, in order; BadInput where one cannot be loaded."""
    listed = plugins.listing(GATES, folders)
    return {name: plugins.load(listed[name]) for name in gate_names(folders)}


def run_gates(
    subject: "ExaminedModel", names: Sequence[str] | None = None, folders: Sequence[Path] = ()
) -> "dict[str, Finding]":
    """Findings by gate, in order; of all gates where none are named."""
    import torch

    gates = load_gates(tuple(folders))
    unknown = [name for name in names or () if name not in gates]
    if unknown:
        raise BadInput(unknown_name("gate", unknown[0], gates))
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = [name for name in gates if name in (names or gates)]
        return {name: _examine(gates[name], subject, gates.get(_STATE)) for name in chosen}


def examine_models(
    models: Sequence[SelectedModel], gates: Sequence[str], folders: Sequence[Path] = ()
) -> Iterator[Begin | Measurement]:
    """Yield a measurement for each model and gate, and the size and time of each model.

    One model is examined here, gate by gate, so that a crash or a hang has the name of a gate;
    several, which must be free of user code, in forked processes.
    """
    import torch

    torch.set_num_threads(1)  # models are small: a second thread would only wait
    try:
        load_gates(tuple(folders))
    except BadInput as error:
        for model in models:
            yield _measurement(model, "load", status="failed", reason=str(error))
        return
    if len(models) == 1:
        yield from _examine_model(models[0], gates, folders)
        return
    import torch._dynamo

    def work(model: SelectedModel) -> Any:
        items = _examine_model(model, gates, folders)
        return msgspec.to_builtins([item for item in items if isinstance(item, Measurement)])

    for model, result in map_forked(work, models):
        yield Begin(model.name)
        if result.value is None:
            yield _measurement(model, "process", status="failed", reason=result.ending)
        else:
            yield from msgspec.convert(result.value, list[Measurement])


def _examine_model(
    model: SelectedModel, gates: Sequence[str], folders: Sequence[Path]
) -> Iterator[Begin | Measurement]:
    from assay.correctness.models.examined_model import variant_model
    from assay.correctness.models.full_size import full_size

    yield Begin(model.name)
    try:
        if model.file is not None:
            subject = user_models.load(model.file, model.class_name)
        else:
            subject = variant_model(model.variant, model.options, name=model.name)
    except BadInput as error:
        traceback.print_exception(error, file=sys.stderr)
        yield _measurement(model, "load", status="failed", reason=str(error))
        return
    start = time.perf_counter()
    for gate in gates:
        yield Begin(model.name, gate)
        finding = run_gates(subject, [gate], folders)[gate]
        debug = getattr(load_gates(tuple(folders))[gate], "DEBUG", "")
        yield _measurement(
            model,
            gate,
            finding.value,
            finding.unit,
            status=finding.status,
            reason=finding.reason,
            cause=debug or None if finding.status == "failed" else None,
        )
    elapsed_s = time.perf_counter() - start
    yield Begin(model.name, MODEL_PARAMETERS)
    size = full_size(subject, model.options)
    for metric, value, unit in (
        (MODEL_PARAMETERS, size.parameters, "count"),
        (MODEL_CACHE_BYTES, size.cache_bytes_per_token, "B"),
    ):
        reason = size.reason if value is None else None
        yield _measurement(model, metric, value, unit, source=_FULL_SIZE, reason=reason)
    yield _measurement(model, MODEL_SECONDS, elapsed_s, "s")


def _measurement(
    model: SelectedModel, metric: str, value: float | None = None, unit: str = "", **outcome: Any
) -> Measurement:
    spec = {
        "steps": list(model.steps),
        "parts": list(model.tags),
        "options": format_options(model.options),
    }
    return Measurement(
        subject=model.name,
        metric=metric,
        value=value,
        unit=unit,
        level="model",
        workload=WorkloadIdentity(name=model.name, spec=spec, content=None),
        **outcome,
    )


def _examine(
    gate: ModuleType, subject: "ExaminedModel", state_gate: ModuleType | None
) -> "Finding":
    """Run a gate; where it fails for state, once more without it.

    A running mean that moves in training reads like a leak: no two calls agree.
    """
    finding = _run(gate, subject)
    if finding.status != "failed" or not getattr(gate, "COMPARES_CALLS", False):
        return finding
    if state_gate is None or not _leaves_state(state_gate, subject):
        return finding
    again = _run(gate, subject.without_kept_state)
    qualified = _STATE_REMAINS if again.status == "failed" else _STATE_PUT_BACK
    return replace(again, reason=f"{again.reason}; {qualified}")


def _leaves_state(state_gate: ModuleType, subject: "ExaminedModel") -> bool:
    try:
        return state_gate.examine(subject).status == "failed"
    except (Exception, SystemExit):  # a model that cannot be called at all
        return False


def _run(gate: ModuleType, subject: "ExaminedModel") -> "Finding":
    from assay.correctness.models.finding import failed

    try:
        return gate.examine(subject)
    except (Exception, SystemExit) as error:
        traceback.print_exception(error, file=sys.stderr)
        return failed(_error_text(error, subject))


def _error_text(error: BaseException, subject: "ExaminedModel") -> str:
    """An exception in one line: its type and message, and the line of the model it arose in."""
    from assay.correctness.models.finding import ContractViolation

    message = " ".join(foreign_text.message(str(error)).split())[:_LONGEST_MESSAGE]
    if not isinstance(error, ContractViolation):
        message = f"{type(error).__name__}: {message}"
    place = _place(error.__cause__ or error, subject)
    return f"{message} ({place})" if place else message


def _place(error: BaseException, subject: "ExaminedModel") -> str:
    """Innermost line of the user's file; of the family, of a part or of the decoder."""
    frames = traceback.extract_tb(error.__traceback__)
    if subject.source is not None:
        inside = [frame for frame in frames if Path(frame.filename) == subject.source]
    else:
        parts = subject.variant.parts.values() if subject.variant is not None else ()
        files = {part.path.resolve() for part in parts}
        inside = [f for f in frames if _is_model_code(Path(f.filename), files)]
    if not inside:
        return ""
    last = inside[-1]
    return f"{Path(last.filename).name}:{last.lineno}: {last.line}"


def _is_model_code(path: Path, parts: set[Path]) -> bool:
    rooms = (plugins.PACKAGE / "kv", plugins.PACKAGE / "models" / "gpt2")
    return path in parts or any(path.is_relative_to(room) for room in rooms)
