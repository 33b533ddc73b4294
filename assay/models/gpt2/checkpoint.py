"""Models of the GPT-2 family on disk: saved with their identity, loaded into their like or refused.

A checkpoint is one safetensors file that names the variant, the whole configuration, the number of
parameters and a digest of its tensors. What is loaded is always a newly made model with every
tensor in its place, never a part of one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import msgspec
import torch

from assay.errors import BadInput
from assay.models.gpt2 import variants, weights_file
from assay.models.gpt2.config import ModelConfig, completed
from assay.models.gpt2.variants import Variant
from assay.models.gpt2.weights_file import CheckpointIdentity

_LARGEST_SIZE, _MOST_LAYERS = 1 << 28, 1 << 12  # of any model; more is not even counted
_ALWAYS_TAKEN = 1 << 24  # numbers: a model this small is made, and what does not fit is listed


def save(model: torch.nn.Module, path: Path | str, **extra: Any) -> CheckpointIdentity:
    """Write a model of a variant to `path`. `extra` is what else to remember, in JSON's terms."""
    variant, config = getattr(model, "variant", None), getattr(model, "config", None)
    if variant is None or config is None:
        raise BadInput(
            f"{type(model).__name__} has no `variant` and `config`, so that nothing could say "
            "whose weights these are; save what variants.model_class(NAME) makes"
        )
    tensors, tied = _unshared(model.state_dict())
    identity = CheckpointIdentity(
        variant=variant.name,
        config=_as_json(asdict(config)),
        dtype=_dtype_of(model),
        parameters=_parameter_count(model),
        digest=weights_file.digest_of(tensors),
        tied=tied,
        extra=_as_json(extra),
    )
    weights_file.write(Path(path), tensors, identity)
    return identity


def identity(path: Path | str) -> CheckpointIdentity:
    """The identity of the weights in a checkpoint; its tensors are not read."""
    return weights_file.read_identity(Path(path))


def load(
    path: Path | str,
    *,
    expect: str | type | None = None,
    config: ModelConfig | None = None,
    device: str = "cpu",
    folders: Sequence[Path] = (),
) -> torch.nn.Module:
    """The model in a checkpoint, on `device`, in the dtype it was saved in and in training mode.

    `expect` is the variant it must be, by name or by class, and `config` the configuration it must
    have. All that differs is listed.
    """
    path = Path(path)
    saved = weights_file.read_identity(path)
    variant = _variant(path, saved, expect, folders)
    config = _config(path, saved, variants.config_class(variant), config)
    tensors, kind = weights_file.read_tensors(path), variants.model_class(variant, folders)
    _require_size(path, tensors, kind, config)
    with torch.random.fork_rng(devices=[]):  # its own start is overwritten; no draw of others moves
        model = kind(config)
    model.to(getattr(torch, saved.dtype))
    if wrong := _differences(tensors, saved, model):
        raise BadInput(
            f"{path} is not a whole {variant.name} of its configuration: {_listed(wrong)}. "
            "Nothing was loaded; it was changed, or another version of assay wrote it: take "
            "another copy, or that version"
        )
    weights_file.require_digest(path, tensors, saved)
    tied = {name: tensors[first] for name, first in saved.tied.items()}
    model.load_state_dict(tensors | tied, strict=True)
    return model.to(device)


def _variant(
    path: Path, saved: CheckpointIdentity, expect: str | type | None, folders: Sequence[Path]
) -> Variant:
    """The variant of a checkpoint, which must be the expected one."""
    if expect is not None:
        wanted = _canonical_name(expect, folders)
        if wanted != saved.variant:
            raise BadInput(
                f"{path} holds {saved.variant} ({saved.parameters:,} parameters), wanted "
                f"{wanted}; load it as {saved.variant}, or give a checkpoint of {wanted}"
            )
    try:
        return variants.parse(saved.variant, folders)
    except BadInput as error:
        raise BadInput(f"{path} holds {saved.variant}, which is not known here: {error}") from error


def _canonical_name(expect: str | type, folders: Sequence[Path]) -> str:
    if isinstance(expect, str):
        return variants.parse(expect, folders).name
    variant = getattr(expect, "variant", None)
    if not isinstance(variant, Variant):
        raise BadInput(
            f"expect={expect!r} is no variant; give a name, or a class that "
            "variants.model_class(NAME) gave"
        )
    return variant.name


def _config(
    path: Path, saved: CheckpointIdentity, kind: type[ModelConfig], wanted: ModelConfig | None
) -> ModelConfig:
    """The configuration of a checkpoint, which must be the expected one."""
    values = saved.config
    names = {field.name for field in fields(kind)}
    wrong = [f"{name} is not an option of {kind.__name__}" for name in values if name not in names]
    if wanted is None:
        wrong += [f"{name} is not given" for name in names if name not in values]
    elif not issubclass(kind, type(wanted)):
        wrong.append(f"it has a {kind.__name__}, wanted a {type(wanted).__name__}")
    else:
        wanted = completed(wanted, kind)
        wrong += [
            f"{name} is {values[name]!r}, wanted {value!r}"
            for name, value in _as_json(asdict(wanted)).items()
            if name in values and values[name] != value
        ]
    if wrong:
        raise BadInput(
            f"{path} holds a {saved.variant} of another configuration: "
            f"{_listed(sorted(wrong))}. Load it with its own (config=None), or give the checkpoint "
            "that belongs to yours; what an older assay did not write, `config` can give"
        )
    try:
        return wanted or msgspec.convert(values, kind)
    except (msgspec.ValidationError, BadInput) as error:
        raise BadInput(f"{path} has a configuration that no model has: {error}") from error


def _require_size(
    path: Path, tensors: Mapping[str, torch.Tensor], kind: type, config: ModelConfig
) -> None:
    """Refuse the configuration of a model far larger than the file before memory is taken for it:
    one without values is made and counted, where its parts can be made so."""
    there = sum(tensor.numel() for tensor in tensors.values())
    sizes = [value for value in vars(config).values() if isinstance(value, int)]
    wanted = max(*sizes, config.n_layer * _LARGEST_SIZE // _MOST_LAYERS)
    if wanted <= _LARGEST_SIZE:
        try:
            with torch.device("meta"):
                model = kind(config)
        except NotImplementedError:  # a part that looks at values
            return
        wanted = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    if wanted > max(_ALWAYS_TAKEN, 2 * there):
        raise BadInput(
            f"{path} has {there:,} numbers and the configuration of a model of {wanted:,} or "
            "more; it was changed: take another copy of it"
        )


def _unshared(
    state: Mapping[str, torch.Tensor],
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Each tensor once, in memory of its own on the CPU; and the further names of shared ones."""
    tensors: dict[str, torch.Tensor] = {}
    tied: dict[str, str] = {}
    firsts: dict[tuple, str] = {}
    for name, tensor in state.items():
        place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and place in firsts:
            tied[name] = firsts[place]
            continue
        firsts[place] = name
        own = tensor.detach().cpu().contiguous()
        whole = own.untyped_storage().nbytes() == own.numel() * own.element_size()
        tensors[name] = own if whole else own.clone()
    return tensors, tied


def _differences(
    tensors: Mapping[str, torch.Tensor], saved: CheckpointIdentity, model: torch.nn.Module
) -> list[str]:
    """Reasons why a checkpoint does not fill a model, one sentence each."""
    wanted, tied = _unshared(model.state_dict())
    wrong = [f"{name} is missing" for name in wanted if name not in tensors]
    wrong += [f"{name} is unexpected" for name in tensors if name not in wanted]
    wrong += [
        f"{name} is {_form(tensor)}, wanted {_form(wanted[name])}"
        for name, tensor in tensors.items()
        if name in wanted and _form(tensor) != _form(wanted[name])
    ]
    wrong += [
        f"{name} shares the tensor of {saved.tied.get(name)}, wanted that of {tied.get(name)}"
        for name in sorted({*saved.tied, *tied})
        if saved.tied.get(name) != tied.get(name)
    ]
    if not wrong and saved.parameters != _parameter_count(model):
        wrong.append(f"it says {saved.parameters:,} parameters and has {_parameter_count(model):,}")
    return wrong


def _form(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _parameter_count(model: torch.nn.Module) -> int:
    """Numbers in all parameters, a shared one counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _dtype_of(model: torch.nn.Module) -> str:
    dtypes = {str(parameter.dtype).removeprefix("torch.") for parameter in model.parameters()}
    if len(dtypes) != 1:
        raise BadInput(
            f"the parameters are {' and '.join(sorted(dtypes))}; a checkpoint has one dtype: "
            "convert the model with .to(dtype) first"
        )
    return dtypes.pop()


def _listed(wrong: Sequence[str], most: int = 12) -> str:
    more = [f"and {len(wrong) - most} more"] if len(wrong) > most else []
    return "; ".join([*wrong[:most], *more])


def _as_json(value: Any) -> Any:
    """The value as it will be when it is read again: tuples are lists."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"{value!r} cannot be written as JSON ({error}); give finite numbers, words, lists and "
            "dicts, and None for what is not known"
        ) from error
