"""Points of a run that Weights & Biases has stored on this machine, from its `.wandb` files.

Such a file has a header of 7 bytes, then blocks of 32 KiB as LevelDB's log has them: chunks of
checksum, length and kind, which make up messages of W&B's protobuf. A writer that was killed leaves
a chunk that is cut off or fails its checksum: what comes before it counts, and it does not.
https://github.com/wandb/wandb/blob/main/core/pkg/leveldb/record.go
"""

import json
import struct
import zlib
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.errors import BadInput

_HEADER = b":W&B"
_HEADER_BYTES = 7
_BLOCK_BYTES = 1 << 15
_CHUNK = struct.Struct("<IHB")  # checksum, length, kind
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """Everything that the files of one run of W&B hold together."""

    history: list[dict[str, Any]] = field(default_factory=list)  # rows in the order of writing
    summary: dict[str, Any] = field(default_factory=dict)  # without what W&B takes from rows
    config: dict[str, Any] = field(default_factory=dict)
    system: list[tuple[float, dict[str, Any]]] = field(default_factory=list)  # time in s, values
    about: dict[str, Any] = field(default_factory=dict)  # name, project, entity, exit_code ...
    environment: dict[str, Any] = field(default_factory=dict)  # as wandb-metadata.json has it

    @property
    def numbers(self) -> set[int]:
        """W&B's own numbers of the rows."""
        return {row["_step"] for row in self.history}


def stored_run(folder: Path, identity: str) -> StoredRun:
    """All that the offline runs below `folder`/wandb hold of the run with an identity."""
    stored = StoredRun()
    for file in sorted((folder / "wandb").glob(f"offline-run-*-{identity}/run-{identity}.wandb")):
        for message in messages(file):
            _add(message, stored)
    return stored


def stored_file(file: Path, stored: StoredRun) -> int:
    """Add all that one file holds; return how many bytes at its end are no whole message."""
    stream = messages(file)
    while True:
        try:
            _add(next(stream), stored)
        except StopIteration as end:
            return end.value
        except json.JSONDecodeError as error:
            raise BadInput(f"{file} holds a value that is no JSON: {error}") from error


def messages(file: Path) -> Generator[bytes, None, int]:
    """The complete messages of a file, up to where its writer was killed; in the end the number of
    bytes that are left out there."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}") from error
    if content and not content.startswith(_HEADER[: len(content)]):
        raise BadInput(f"{file} is not a file of W&B; if it is in the way of a mirror, move it")
    position, whole, parts = _HEADER_BYTES, _HEADER_BYTES, []
    while position < len(content):
        room = _BLOCK_BYTES - position % _BLOCK_BYTES
        if room < _CHUNK.size:  # filled up with zeros
            position += room
            continue
        chunk = _chunk(content, position)
        if chunk is None:
            break
        kind, payload = chunk
        position += _CHUNK.size + len(payload)
        if kind in (_FULL, _FIRST):
            parts = []
        parts.append(payload)
        if kind in (_FULL, _LAST):
            whole = position
            yield b"".join(parts)
    return max(len(content) - whole, 0)


def _chunk(content: bytes, position: int) -> tuple[int, bytes] | None:
    """Kind and bytes of the chunk at a position; None where it is not whole."""
    start = position + _CHUNK.size
    if start > len(content):
        return None
    checksum, length, kind = _CHUNK.unpack(content[position:start])
    payload = content[start : start + length]
    if kind not in (_FULL, _FIRST, _MIDDLE, _LAST) or len(payload) < length:
        return None
    if zlib.crc32(payload, zlib.crc32(bytes([kind]))) != checksum:
        return None
    return kind, payload


def _add(message: bytes, stored: StoredRun) -> None:
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError
    from wandb.proto import wandb_internal_pb2

    record = wandb_internal_pb2.Record()
    try:
        record.ParseFromString(message)
    except DecodeError as error:
        raise BadInput(f"a message in a file of W&B cannot be read: {error}") from error
    kind = record.WhichOneof("record_type")
    if kind == "history":
        stored.history.append(_values(record.history.item))
    elif kind == "summary":  # W&B's own updates have nested keys
        stored.summary.update(_values(item for item in record.summary.update if item.key))
    elif kind == "run":
        stored.config.update(_values(record.run.config.update))
        stored.about.update(_about(record.run))
    elif kind == "config":
        stored.config.update(_values(record.config.update))
    elif kind == "stats":
        moment = record.stats.timestamp.seconds + record.stats.timestamp.nanos / 1e9
        values = {item.key: json.loads(item.value_json) for item in record.stats.item}
        stored.system.append((moment, values))
    elif kind == "environment":
        stored.environment.update(MessageToDict(record.environment))
    elif kind == "exit":
        stored.about["exit_code"] = record.exit.exit_code


def _about(run: Any) -> dict[str, Any]:
    """Names of a run, those that it has."""
    names = {
        "identity": run.run_id, "name": run.display_name, "project": run.project,
        "entity": run.entity, "group": run.run_group, "host": run.host, "commit": run.git.commit,
    }  # fmt: skip
    return {name: value for name, value in names.items() if value}


def _values(items: Any) -> dict[str, Any]:
    """Values by key; the parts of a nested key are joined by dots."""
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}
