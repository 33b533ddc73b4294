"""The description of prepared data, data.json: what it was made of, and what each file must hold.

It is written last, so a folder without it was never finished.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from assay.errors import BadInput
from assay.records.durable import write_atomically
from assay.train.documents import SPLITS
from assay.train.shards import ShardEntry, require_whole

FILE = "data.json"
FORMAT = "assay-data"
VERSION = 2


class DataDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Prepared data in words and numbers; dicts are by split."""

    format: str = FORMAT
    version: int = VERSION
    dataset: str
    place: str
    tokenizer: str  # its name
    tokenizer_state: dict[str, Any]
    vocabulary: int
    end: int  # the token after every document
    dtype: Literal["uint16", "uint32"]
    validation_percent: float
    most_tokens: int
    split: str  # the rule, in words
    documents: dict[str, int]
    tokens: dict[str, int]
    shards: dict[str, list[ShardEntry]]
    documents_sha256: str  # of names and texts, in their order
    python: str  # of the process that prepared it: that whose library is the dataset stdlib
    digest: str  # of the whole

    @property
    def words(self) -> str:
        """The data in a line, for a report."""
        parts = (
            f"{split} {self.tokens[split]:,} tokens of documents: {self.documents[split]:,}"
            for split in SPLITS
        )
        return f"{self.dataset} ({self.digest[:12]}), {self.tokenizer}, {', '.join(parts)}"


def digest_of(
    dataset: str, tokenizer_state: dict[str, Any], shards: dict[str, Sequence[ShardEntry]]
) -> str:
    """The sha256 of dataset, tokenizer state and the digests of all shards."""
    entries = [[split, *(entry.sha256 for entry in shards[split])] for split in SPLITS]
    content = msgspec.json.encode([dataset, tokenizer_state, entries], order="sorted")
    return hashlib.sha256(content).hexdigest()


def write(folder: Path, description: DataDescription) -> None:
    """Write the description of what is already in `folder`."""
    content = msgspec.json.format(msgspec.json.encode(description, order="sorted"), indent=1)
    write_atomically(folder / FILE, content)


def read(folder: Path) -> DataDescription:
    """The description in `folder`; one that is missing, torn or of another program is refused."""
    path = folder / FILE
    try:
        description = msgspec.json.decode(path.read_bytes(), type=DataDescription)
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read ({error.strerror or error}), so {folder} holds no data that "
            "was prepared to the end; give the folder of prepared data, or prepare it"
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(
            f"{path} is no description of prepared data ({error}); {_again(folder)}"
        ) from error
    if (description.format, description.version) != (FORMAT, VERSION):
        raise BadInput(
            f"{path} is of {description.format} version {description.version}, this assay reads "
            f"{FORMAT} version {VERSION}; {_again(folder)}"
        )
    return description


def require_data(folder: Path, description: DataDescription) -> None:
    """Refuse a folder whose files are not those that its description lists."""
    for split in SPLITS:
        shards = description.shards.get(split, [])
        for number, entry in enumerate(shards):
            if entry.file != f"{split}-{number:05d}.bin":
                raise BadInput(
                    f"{folder / FILE} names {entry.file!r} as shard {number} of {split}; "
                    f"{_again(folder)}"
                )
            require_whole(folder, entry, dtype=description.dtype)
    for by_split in (description.documents, description.tokens, description.shards):
        if set(by_split) != set(SPLITS):
            raise BadInput(
                f"{folder / FILE} has entries for {', '.join(sorted(by_split)) or 'no split'}, "
                f"wanted {' and '.join(SPLITS)}; {_again(folder)}"
            )
    digest = digest_of(description.dataset, description.tokenizer_state, description.shards)
    if digest != description.digest:
        raise BadInput(
            f"{folder / FILE} was changed after it was written: it says the digest "
            f"{description.digest}, its content has {digest}; {_again(folder)}"
        )


def _again(folder: Path) -> str:
    return f"remove the folder {folder} and prepare the data again"
