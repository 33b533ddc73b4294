"""Models of the GPT-2 family on disk: saved with their identity, loaded into their like or refused.

A checkpoint is one safetensors file that names the variant, the whole configuration, the number of
parameters and a digest of its tensors. What is loaded is always a newly made model with every
tensor in its place, never a part of one.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import msgspec
import torch

from assay.errors import BadInput
from assay.models.gpt2 import checkpoint_file, variants
from assay.models.gpt2.checkpoint_file import CheckpointHeader, CheckpointIdentity
from assay.models.gpt2.checkpoint_tensors import apart, count, differences
from assay.models.gpt2.config import ModelConfig, completed
from assay.models.gpt2.variants import Variant


def save(model: torch.nn.Module, path: Path | str, **extra: Any) -> CheckpointIdentity:
    """Write a model of a variant to `path`. `extra` is what else to remember, in JSON's terms."""
    variant, config = getattr(model, "variant", None), getattr(model, "config", None)
    if variant is None or config is None:
        raise BadInput(
            f"{type(model).__name__} has no `variant` and `config`, so that nothing could say "
            "whose weights these are; save what variants.model_class(NAME) makes"
        )
    tensors, tied = apart(model.state_dict())
    identity = CheckpointIdentity(
        variant=variant.name,
        config=_as_json(asdict(config)),
        dtype=_dtype_of(model),
        parameters=count(model),
        digest=checkpoint_file.digest_of(tensors),
        tied=tied,
        extra=_as_json(extra),
    )
    checkpoint_file.write(Path(path), tensors, identity)
    return identity


def identity(path: Path | str) -> CheckpointIdentity:
    """Whose weights a checkpoint holds; its tensors are not read."""
    return checkpoint_file.header(Path(path)).identity


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
    found = checkpoint_file.header(Path(path))
    variant = _variant(found, expect, folders)
    config = _config(found, variants.config_class(variant), config)
    with torch.random.fork_rng(devices=[]):  # its own start is overwritten; no draw of others moves
        model = variants.model_class(variant, folders)(config)
    model.to(getattr(torch, found.identity.dtype))
    if wrong := differences(found, model):
        raise BadInput(
            f"{found.path} is not a whole {variant.name} of its configuration: {_listed(wrong)}. "
            "Nothing was loaded; it was changed, or another version of assay wrote it: take "
            "another copy, or that version"
        )
    model.load_state_dict(checkpoint_file.read(found), strict=True)
    return model.to(device)


def _variant(
    found: CheckpointHeader, expect: str | type | None, folders: Sequence[Path]
) -> Variant:
    """The variant of a checkpoint, which must be the expected one."""
    named = found.identity.variant
    if expect is not None:
        wanted = _canonical(expect, folders)
        if wanted != named:
            raise BadInput(
                f"{found.path} holds {named} ({found.identity.parameters:,} parameters), wanted "
                f"{wanted}; load it as {named}, or give a checkpoint of {wanted}"
            )
    try:
        return variants.parse(named, folders)
    except BadInput as error:
        raise BadInput(f"{found.path} holds {named}, which is not known here: {error}") from error


def _canonical(expect: str | type, folders: Sequence[Path]) -> str:
    if isinstance(expect, str):
        return variants.parse(expect, folders).name
    variant = getattr(expect, "variant", None)
    if not isinstance(variant, Variant):
        raise BadInput(
            f"expect={expect!r} is no variant; give a name, or a class that "
            "variants.model_class(NAME) gave"
        )
    return variant.name


def _config(found: CheckpointHeader, kind: type, wanted: ModelConfig | None) -> ModelConfig:
    """The configuration of a checkpoint, which must be the expected one."""
    said = found.identity.config
    names = {field.name for field in fields(kind)}
    wrong = [f"{name} is not an option of {kind.__name__}" for name in said if name not in names]
    if wanted is None:
        wrong += [f"{name} is not said" for name in names if name not in said]
    else:
        if issubclass(kind, type(wanted)):
            wanted = completed(wanted, kind)
        given = _as_json(asdict(wanted)) if isinstance(wanted, kind) else {}
        if not given:
            wrong.append(f"it has a {kind.__name__}, wanted a {type(wanted).__name__}")
        wrong += [
            f"{name} is {said[name]!r}, wanted {value!r}"
            for name, value in given.items()
            if name in said and said[name] != value
        ]
    if wrong:
        raise BadInput(
            f"{found.path} holds a {found.identity.variant} of another configuration: "
            f"{_listed(sorted(wrong))}. Load it with its own (config=None), or give the checkpoint "
            "that belongs to yours; what an older assay did not say, `config` can say"
        )
    try:
        return wanted or msgspec.convert(said, kind)
    except (msgspec.ValidationError, BadInput) as error:
        raise BadInput(f"{found.path} has a configuration that no model has: {error}") from error


def _dtype_of(model: torch.nn.Module) -> str:
    found = {str(parameter.dtype).removeprefix("torch.") for parameter in model.parameters()}
    if len(found) != 1:
        raise BadInput(
            f"the parameters are {' and '.join(sorted(found))}; a checkpoint has one dtype: "
            "convert the model with .to(dtype) first"
        )
    return found.pop()


def _listed(wrong: Sequence[str], most: int = 12) -> str:
    more = [f"and {len(wrong) - most} more"] if len(wrong) > most else []
    return "; ".join([*wrong[:most], *more])


def _as_json(value: Any) -> Any:
    """As it will be when it is read again: tuples are lists."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"{value!r} cannot be written as JSON ({error}); give finite numbers, words, lists and "
            "dicts, and None for what is not known"
        ) from error
