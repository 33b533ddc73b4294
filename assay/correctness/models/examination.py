"""All gates on one model. What raises is a failed gate that names the line; the others go on."""

import traceback
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

from assay import plugins
from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import ContractViolation, Finding, failed
from assay.errors import BadInput

KIND = "gates"
_LONGEST = 400  # characters of a message that are told


def run_gates(
    subject: ExaminedModel,
    gates: Sequence[str] | None = None,
    folders: Sequence[Path] = (),
) -> dict[str, Finding]:
    """What each gate finds, by name and in order; all gates where none are named."""
    there = load_gates(tuple(folders))
    unknown = [name for name in gates or () if name not in there]
    if unknown:
        raise BadInput(f"there is no gate {unknown[0]!r}; there are {', '.join(there)}")
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: examine(there[name], subject) for name in there if name in (gates or there)}


@cache
def load_gates(folders: tuple[Path, ...] = ()) -> dict[str, ModuleType]:
    """Every gate, loaded."""
    listed = plugins.listing(KIND, folders).values()
    ordered = sorted(listed, key=lambda plugin: (plugin.literals["ORDER"], plugin.name))
    return {plugin.name: plugins.load(plugin) for plugin in ordered}


def examine(gate: ModuleType, subject: ExaminedModel) -> Finding:
    """What one gate finds."""
    try:
        return gate.examine(subject)
    except (Exception, SystemExit) as error:
        return failed(told(error, subject))


def told(error: BaseException, subject: ExaminedModel) -> str:
    """An exception in one line: what it is, what it says, where in the model it arose."""
    message = " ".join(str(error).split())[:_LONGEST]
    if not isinstance(error, ContractViolation):
        message = f"{type(error).__name__}: {message}"
    place = _place(error.__cause__ or error, subject)
    return f"{message} ({place})" if place else message


def _place(error: BaseException, subject: ExaminedModel) -> str:
    """The innermost line of the model's own file; of the family, of a part or of the decoder."""
    frames = traceback.extract_tb(error.__traceback__)
    if subject.source is not None:
        inside = [frame for frame in frames if Path(frame.filename) == subject.source]
    else:
        made_of = subject.variant.parts.values() if subject.variant is not None else ()
        parts = {part.path.resolve() for part in made_of}
        inside = [f for f in frames if _of_a_model(path := Path(f.filename)) or path in parts]
    if not inside:
        return ""
    last = inside[-1]
    return f"{Path(last.filename).name}:{last.lineno}: {last.line}"


def _of_a_model(path: Path) -> bool:
    return any(path.is_relative_to(plugins.PACKAGE / room) for room in ("kv", "models/gpt2"))
