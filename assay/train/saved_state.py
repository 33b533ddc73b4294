"""The state of a training run on disk: weights, optimizer, random numbers and where it stands.

    step-000100.safetensors          a checkpoint of the model (models/gpt2/checkpoint.py)
    step-000100.optimizer.safetensors   tensors of the optimizer and of random generators, those of
                                     further processes by their rank
    last.json                        the step that both belong to, numbers, digests; written last

A process may be killed at any moment: `last.json` names files that are whole, and those of an older
step are removed only after it is written. Nothing is pickled, nothing in a file is executed.
Tensors are whole, so that a run may go on in another number of processes.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from assay.errors import BadInput
from assay.models.gpt2 import checkpoint, weights_file
from assay.records.durable import make_folder, write_atomically
from assay.train.parallel import ONE_PROCESS, OneProcess, own_seed, sharded, whole

FORMAT = "assay-training-state"
LAST, BEST = "last.json", "best.safetensors"
_OPTIMIZER = "optimizer"
_AGAIN = "remove this folder to train from the start, or take another copy of it"


@dataclass(frozen=True, kw_only=True)
class Position:
    """Place of a run: what a resumed one needs beside tensors."""

    step: int
    seconds: float  # of training, over all processes
    micro_batch: int
    data_digest: str
    settings_digest: str
    best_loss: float | None
    best_step: int | None
    initial_digests: dict[str, str]  # by parameter, before the first step
    weights_digest: str = ""
    optimizer_digest: str = ""
    optimizer: dict[str, Any] = field(default_factory=dict)  # its numbers and groups
    processes: int = 1


def save(
    folder: Path,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    position: Position,
    parallel: OneProcess,
) -> Position:
    """Write the state of a step whole, then make it the last; returns it with its digests, which
    the first process alone has."""
    tensors, numbers = _flattened(optimizer.state_dict())
    tensors |= _random_states(model, parallel)
    complete = parallel.whole(model)
    written = parallel.first(lambda: _write(folder, complete, tensors, numbers, position))
    return written or position


def _write(
    folder: Path,
    model: torch.nn.Module,
    tensors: dict[str, torch.Tensor],
    numbers: dict[str, Any],
    position: Position,
) -> Position:
    make_folder(folder)
    weights, tensors_file = _files(folder, position.step)
    saved = checkpoint.save(model, weights, step=position.step)
    weights_file.write_tensors(tensors_file, tensors, {"format": FORMAT})
    complete = msgspec.convert(
        msgspec.to_builtins(position)
        | {
            "weights_digest": saved.digest,
            "optimizer_digest": weights_file.digest_of(tensors),
            "optimizer": numbers,
        },
        Position,
    )
    write_atomically(folder / LAST, msgspec.json.encode(complete))
    for other in folder.glob("step-*.safetensors"):
        if other not in (weights, tensors_file):
            other.unlink()
    return complete


def last(folder: Path) -> Position | None:
    """The position that the folder was left at; None where nothing was saved."""
    path = folder / LAST
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Position)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{path} cannot be read ({error}); {_AGAIN}") from error


def weights_of(folder: Path, position: Position) -> Path:
    """The checkpoint of a position."""
    return _files(folder, position.step)[0]


def restore(
    folder: Path,
    position: Position,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    folders: Sequence[Path] = (),
    parallel: OneProcess = ONE_PROCESS,
) -> None:
    """Fill a model and its optimizer, made as at the start, with the state of a position; parts of
    a user's own are in `folders`. A process that the state has no random numbers of draws its own.
    """
    weights, tensors_file = _files(folder, position.step)
    try:
        loaded = checkpoint.load(
            weights, expect=model.variant.name, config=model.config, folders=folders
        )
    except BadInput as error:
        raise BadInput(f"{error}; or {_AGAIN}") from error
    if checkpoint.identity(weights).digest != position.weights_digest:
        raise BadInput(f"{weights} is not the one that {folder / LAST} names; {_AGAIN}")
    own = model.state_dict()
    model.load_state_dict({n: sharded(t, like=own[n]) for n, t in loaded.state_dict().items()})
    try:
        tensors = load_file(tensors_file)
    except (OSError, SafetensorError) as error:
        raise BadInput(f"{tensors_file} cannot be read ({error}); {_AGAIN}") from error
    if weights_file.digest_of(tensors) != position.optimizer_digest:
        raise BadInput(f"{tensors_file} was changed after it was written; {_AGAIN}")
    if not _fits(position.optimizer, tensors, optimizer):
        raise BadInput(f"{folder / LAST} holds no state of this optimizer; {_AGAIN}")
    try:
        _draw_on(tensors, model, parallel, position)
    except (RuntimeError, TypeError) as error:  # torch's own look at the state of a generator
        raise BadInput(f"{tensors_file} has no random numbers to go on with: {error}") from error
    parameters = [weight for group in optimizer.param_groups for weight in group["params"]]
    state = _unflattened(tensors, position.optimizer, parameters)
    try:
        optimizer.load_state_dict(state)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:  # of an optimizer's own look
        raise BadInput(
            f"{tensors_file} lacks what this optimizer goes on with "
            f"({type(error).__name__}: {error}); {_AGAIN}"
        ) from error


def digests(model: torch.nn.Module) -> dict[str, str]:
    """Digests of the trained parameters by name, the same in any number of processes."""
    return {
        name: hashlib.sha256(
            whole(p.detach()).cpu().contiguous().view(torch.uint8).numpy()
        ).hexdigest()[:16]
        for name, p in model.named_parameters()
        if p.requires_grad
    }


def _files(folder: Path, step: int) -> tuple[Path, Path]:
    name = f"step-{step:06}"
    return folder / f"{name}.safetensors", folder / f"{name}.optimizer.safetensors"


def _random_states(model: torch.nn.Module, parallel: OneProcess) -> dict[str, torch.Tensor]:
    """The states of the random generators of every process."""
    device = next(model.parameters()).device
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return {
        _random(kind, rank): own
        for kind, state in states.items()
        for rank, own in enumerate(parallel.gathered(state))
    }


def _random(kind: str, rank: int) -> str:
    return f"random.{kind}" + (f".{rank}" if rank else "")


def _draw_on(
    tensors: dict[str, torch.Tensor],
    model: torch.nn.Module,
    parallel: OneProcess,
    position: Position,
) -> None:
    """Draw on from where this process was left, or anew where it was not there."""
    kept = {kind: tensors.get(_random(kind, parallel.rank)) for kind in ("cpu", "cuda")}
    if kept["cpu"] is None:
        digest = int(position.weights_digest[-8:], 16)
        torch.manual_seed(own_seed([digest, position.step, parallel.rank]))
        return
    torch.set_rng_state(kept["cpu"])
    if kept["cuda"] is not None:
        torch.cuda.set_rng_state(kept["cuda"], next(model.parameters()).device)


def _flattened(state: dict[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors of an optimizer's state by number of the parameter and name; and the rest."""
    tensors: dict[str, torch.Tensor] = {}
    numbers: dict[str, dict[str, Any]] = {}
    for index, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, torch.Tensor):
                tensors[f"{_OPTIMIZER}.{index}.{name}"] = whole(value.detach()).cpu().contiguous()
            else:
                numbers.setdefault(str(index), {})[name] = value
    return tensors, {"numbers": numbers, "groups": state["param_groups"]}


def _fits(
    rest: dict[str, Any], tensors: dict[str, torch.Tensor], optimizer: torch.optim.Optimizer
) -> bool:
    """True where a saved state has the groups of the optimizer and names none but its
    parameters."""
    groups = optimizer.state_dict()["param_groups"]
    parameters = {str(number) for group in groups for number in group["params"]}
    numbers = rest.get("numbers")
    keys = [key.split(".", 2) for key in tensors if key.startswith(f"{_OPTIMIZER}.")]
    return (
        isinstance(numbers, dict)
        and all(isinstance(entries, dict) for entries in numbers.values())
        and all(len(key) == 3 for key in keys)
        and parameters.issuperset(numbers.keys() | {key[1] for key in keys})
        and _is_alike(rest.get("groups"), groups)
    )


def _is_alike(saved: Any, own: Any) -> bool:
    """True where a value read from JSON can stand for one of an optimizer's groups."""
    if isinstance(own, dict):
        return (
            isinstance(saved, dict)
            and saved.get("params") == own.get("params")
            and all(name in saved and _is_alike(saved[name], value) for name, value in own.items())
        )
    if isinstance(own, list) and isinstance(saved, list) and _are_numbers([*own, *saved]):
        return True  # a history, which grows with the steps
    if isinstance(own, list | tuple):
        return (
            isinstance(saved, list) and len(saved) == len(own) and all(map(_is_alike, saved, own))
        )
    if isinstance(own, bool | str):
        return isinstance(saved, type(own))
    if isinstance(own, int | float):
        return _are_numbers([saved])
    return True


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _unflattened(
    tensors: dict[str, torch.Tensor], rest: dict[str, Any], parameters: Sequence[torch.Tensor]
) -> dict[str, Any]:
    """The state again, tensors in the shape of their parameter divided as it is."""
    state: dict[int, dict[str, Any]] = {int(i): dict(v) for i, v in rest["numbers"].items()}
    for key, tensor in tensors.items():
        if not key.startswith(f"{_OPTIMIZER}."):
            continue
        _, number, name = key.split(".", 2)
        parameter = parameters[int(number)]
        own = sharded(tensor, like=parameter) if tensor.shape == parameter.shape else tensor
        state.setdefault(int(number), {})[name] = own
    return {"state": state, "param_groups": rest["groups"]}
