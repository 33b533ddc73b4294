"""The file of a checkpoint: safetensors with the identity of its model in the metadata.

The library safetensors writes and reads the tensors. The file is written beside its place, made
durable and then given its name. Reading refuses what is cut short, changed, of another format or of
another program; nothing in a file is ever executed.
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
_DTYPES = ("float64", "float32", "float16", "bfloat16")  # of parameters
_PICKLES = (b"PK", b"\x80\x02", b"\x80\x04", b"\x80\x05")  # first bytes


@dataclass(frozen=True, kw_only=True)
class CheckpointIdentity:
    """The model whose weights a checkpoint holds, as its metadata says."""

    variant: str
    config: dict[str, Any]
    dtype: str  # of all parameters
    parameters: int
    digest: str
    tied: dict[str, str]  # name -> the name under which the same tensor is in the file
    extra: dict[str, Any]  # what else was to be remembered


def write(path: Path, tensors: Mapping[str, torch.Tensor], identity: CheckpointIdentity) -> None:
    """Write a checkpoint whole or not at all; its folder must be there."""
    entries = {key: msgspec.json.encode(value).decode() for key, value in vars(identity).items()}
    write_tensors(path, tensors, {"format": FORMAT, "version": str(VERSION), **entries})


def write_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]
) -> None:
    """Write a safetensors file whole or not at all; its folder must be there."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    with explained(path):
        try:
            with open(temporary, "xb") as file:  # where this fails, the reason is the system's own
                mode = os.fstat(file.fileno()).st_mode
            save_file(dict(tensors), temporary, metadata=dict(metadata))
            os.chmod(temporary, mode)  # the library's files are for their owner alone
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_folder(path.parent)
        except SafetensorError as error:
            raise BadInput(f"cannot write {path}: {error}; nothing was replaced") from error
        finally:
            temporary.unlink(missing_ok=True)


def read_identity(path: Path) -> CheckpointIdentity:
    """The identity in the metadata; no tensor is read."""
    with _opened(path) as file:
        metadata = file.metadata() or {}
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
    names = CheckpointIdentity.__annotations__
    try:
        entries = {name: msgspec.json.decode(metadata[name]) for name in names}
        identity = msgspec.convert(entries, CheckpointIdentity)
        if identity.dtype not in _DTYPES:
            raise ValueError(f"dtype {identity.dtype!r} is none of {', '.join(_DTYPES)}")
    except (KeyError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(
            f"{path} does not say whose weights it holds ({type(error).__name__}: {error}); "
            f"wanted {', '.join(names)} in its metadata; take another copy of it"
        ) from error
    return identity


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """All tensors of the file by name; shared ones are there once."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def require_digest(
    path: Path, tensors: Mapping[str, torch.Tensor], identity: CheckpointIdentity
) -> None:
    """Refuse tensors that are not as they were written."""
    if (digest := digest_of(tensors)) != identity.digest:
        raise BadInput(
            f"{path} was changed after it was written: its tensors have the digest {digest}, "
            f"it says {identity.digest}; take another copy of it"
        )


def digest_of(tensors: Mapping[str, torch.Tensor]) -> str:
    """Digest of names, dtypes, shapes and bytes (on the CPU)."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
    return f"sha256:{digest.hexdigest()}"


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file as safetensors opens it; what is not whole or not safetensors is refused."""
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
        reason = "it is cut short or of another program"
        if start in _PICKLES:
            reason = "it looks like a pickle of torch.save, which could run code and is not opened"
        raise BadInput(
            f"{path} is not a whole safetensors file ({error}): {reason}; give a checkpoint that "
            "assay.models.gpt2.checkpoint saved, or another copy of it"
        ) from error
