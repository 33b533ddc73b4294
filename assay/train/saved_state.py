"""The state of a training run on disk: weights, optimizer, random numbers and where it stands.

    step-000100.safetensors          a checkpoint of the model (models/gpt2/checkpoint.py)
    step-000100.optimizer.safetensors   tensors of the optimizer and of random generators
    last.json                        the step that both belong to, numbers, digests; written last

A process may be killed at any moment: `last.json` names files that are whole, and those of an older
step are removed only after it is written. Nothing is pickled, nothing in a file is executed.
"""

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

FORMAT = "assay-training-state"
LAST, BEST = "last.json", "best.safetensors"
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


def save(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, position: Position
) -> Position:
    """Write the state of a step whole, then make it the last; returns it with its digests."""
    make_folder(folder)
    weights, tensors_file = _files(folder, position.step)
    saved = checkpoint.save(model, weights, step=position.step)
    tensors, numbers = _flattened(optimizer.state_dict())
    tensors |= _random_states(model)
    weights_file.write_tensors(tensors_file, tensors, {"format": FORMAT})
    whole = msgspec.convert(
        msgspec.to_builtins(position)
        | {
            "weights_digest": saved.digest,
            "optimizer_digest": weights_file.digest_of(tensors),
            "optimizer": numbers,
        },
        Position,
    )
    write_atomically(folder / LAST, msgspec.json.encode(whole))
    for other in folder.glob("step-*.safetensors"):
        if other not in (weights, tensors_file):
            other.unlink()
    return whole


def last(folder: Path) -> Position | None:
    """The position that the folder was left at; None where nothing was saved."""
    path = folder / LAST
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Position)
    except (OSError, msgspec.MsgspecError) as error:
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
) -> None:
    """Fill a model and its optimizer, made as at the start, with the state of a position; parts of
    a user's own are in `folders`."""
    weights, tensors_file = _files(folder, position.step)
    try:
        loaded = checkpoint.load(
            weights, expect=model.variant.name, config=model.config, folders=folders
        )
    except BadInput as error:
        raise BadInput(f"{error}; or {_AGAIN}") from error
    if checkpoint.identity(weights).digest != position.weights_digest:
        raise BadInput(f"{weights} is not the one that {folder / LAST} names; {_AGAIN}")
    model.load_state_dict(loaded.state_dict())
    try:
        tensors = load_file(tensors_file)
    except (OSError, SafetensorError) as error:
        raise BadInput(f"{tensors_file} cannot be read ({error}); {_AGAIN}") from error
    if weights_file.digest_of(tensors) != position.optimizer_digest:
        raise BadInput(f"{tensors_file} was changed after it was written; {_AGAIN}")
    torch.set_rng_state(tensors.pop("random.cpu"))
    if "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors.pop("random.cuda"), next(model.parameters()).device)
    optimizer.load_state_dict(_unflattened(tensors, position.optimizer))


def _files(folder: Path, step: int) -> tuple[Path, Path]:
    name = f"step-{step:06}"
    return folder / f"{name}.safetensors", folder / f"{name}.optimizer.safetensors"


def _random_states(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    device = next(model.parameters()).device
    states = {"random.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["random.cuda"] = torch.cuda.get_rng_state(device)
    return states


def _flattened(state: dict[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors of an optimizer's state by number of the parameter and name; and the rest."""
    tensors: dict[str, torch.Tensor] = {}
    numbers: dict[str, dict[str, Any]] = {}
    for index, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, torch.Tensor):
                tensors[f"optimizer.{index}.{name}"] = value.detach().cpu().contiguous()
            else:
                numbers.setdefault(str(index), {})[name] = value
    return tensors, {"numbers": numbers, "groups": state["param_groups"]}


def _unflattened(tensors: dict[str, torch.Tensor], rest: dict[str, Any]) -> dict[str, Any]:
    state: dict[int, dict[str, Any]] = {int(i): dict(v) for i, v in rest["numbers"].items()}
    for key, tensor in tensors.items():
        _, index, name = key.split(".", 2)
        state.setdefault(int(index), {})[name] = tensor
    return {"state": state, "param_groups": rest["groups"]}
