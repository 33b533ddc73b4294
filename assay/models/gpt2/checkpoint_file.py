"""The file of a checkpoint: safetensors with the identity of its model in the metadata.

It is written beside its place, made durable and then given its name. Reading refuses what is cut
short, changed, of another format or of another program; nothing in a file is ever executed.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from assay.errors import BadInput
from assay.records.durable import explained, sync_folder

FORMAT = "assay-checkpoint"
VERSION = 1
_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "U8": "uint8",
    "BOOL": "bool",
}
_FLOATS = tuple(name for name in _DTYPES.values() if "float" in name)

Form = tuple[str, tuple[int, ...]]  # dtype and shape of a tensor


@dataclass(frozen=True, kw_only=True)
class CheckpointIdentity:
    """Whose weights a checkpoint holds, as its header says."""

    variant: str
    config: dict[str, Any]
    dtype: str  # of all parameters
    parameters: int
    digest: str
    tied: dict[str, str]  # name -> the name under which the same tensor is in the file
    extra: dict[str, Any]  # what else was to be remembered


@dataclass(frozen=True, kw_only=True)
class CheckpointHeader:
    """What is known of a checkpoint before its tensors are read."""

    path: Path
    identity: CheckpointIdentity
    tensors: dict[str, Form]


def write(path: Path, tensors: Mapping[str, torch.Tensor], identity: CheckpointIdentity) -> None:
    """Write a checkpoint whole or not at all; its folder must be there."""
    told = {name: _text(value) for name, value in vars(identity).items()}
    metadata = {"format": FORMAT, "version": str(VERSION), **told}
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    with explained(path):
        try:
            with open(temporary, "xb"):  # where this fails, the reason is the system's own
                pass
            save_file(dict(tensors), temporary, metadata=metadata)
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_folder(path.parent)
        except SafetensorError as error:
            raise BadInput(f"cannot write {path}: {error}; nothing was replaced") from error
        finally:
            temporary.unlink(missing_ok=True)


def header(path: Path) -> CheckpointHeader:
    """The identity and the forms of the tensors, none of which is read."""
    with _opened(path) as file:
        metadata = file.metadata() or {}
        tensors = {name: _form(file, name) for name in file.keys()}  # noqa: SIM118
    if metadata.get("format") != FORMAT:
        raise BadInput(
            f"{path} is a safetensors file of another program (its format is "
            f"{metadata.get('format')!r}, wanted {FORMAT!r}); only what "
            "assay.models.gpt2.checkpoint saved can be loaded as a variant"
        )
    if metadata.get("version") != str(VERSION):
        raise BadInput(
            f"{path} is a checkpoint of version {metadata.get('version')}, this assay reads "
            f"version {VERSION}; use the assay that wrote it"
        )
    try:
        told = {name: metadata[name] for name in CheckpointIdentity.__annotations__}
        decoded = {name: msgspec.json.decode(text) for name, text in told.items()}
        identity = msgspec.convert(decoded, CheckpointIdentity)
        if identity.dtype not in _FLOATS:
            raise ValueError(f"dtype {identity.dtype!r} is none of {', '.join(_FLOATS)}")
        return CheckpointHeader(path=path, identity=identity, tensors=tensors)
    except (KeyError, ValueError, msgspec.MsgspecError) as error:
        raise BadInput(
            f"{path} does not say whose weights it holds ({type(error).__name__}: {error}); "
            f"wanted {', '.join(CheckpointIdentity.__annotations__)} in its metadata; "
            "take another copy of it"
        ) from error


def read(found: CheckpointHeader) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint, those under a second name too; they must be as written."""
    with _opened(found.path) as file:
        tensors = {name: file.get_tensor(name) for name in found.tensors}
    if (digest := digest_of(tensors)) != found.identity.digest:
        raise BadInput(
            f"{found.path} was changed after it was written: its tensors have the digest {digest}, "
            f"it says {found.identity.digest}; take another copy of it"
        )
    return tensors | {name: tensors[first] for name, first in found.identity.tied.items()}


def digest_of(tensors: Mapping[str, torch.Tensor]) -> str:
    """Of names, dtypes, shapes and bytes (on the CPU)."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
    return f"sha256:{digest.hexdigest()}"


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with open(path, "rb") as file:
            start = file.read(2)
        with safe_open(path, framework="pt") as opened:
            yield opened
    except OSError as error:
        raise BadInput(
            f"cannot read {path}: {error.strerror or error}; give the path of a checkpoint"
        ) from error
    except SafetensorError as error:
        why = "it is cut short or of another program"
        if start in (b"PK", b"\x80\x02", b"\x80\x04", b"\x80\x05"):
            why = "it looks like a pickle of torch.save, which could run code and is never opened"
        raise BadInput(
            f"{path} is not a whole safetensors file ({error}): {why}; give a checkpoint that "
            "assay.models.gpt2.checkpoint saved, or another copy of it"
        ) from error


def _form(file: Any, name: str) -> Form:
    part = file.get_slice(name)
    return _DTYPES.get(part.get_dtype(), part.get_dtype()), tuple(part.get_shape())


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
