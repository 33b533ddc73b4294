"""Prepared data: a dataset split by document, tokenized once, and opened by every run after.

A folder is named for dataset, tokenizer and a digest of settings and texts, so what is there is
what was asked for. It is written under another name and renamed when it is whole.
"""

import hashlib
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

import msgspec

from assay import plugins
from assay.errors import BadInput, CannotRunHere
from assay.plugins import Plugin
from assay.records.durable import explained, make_folder, sync_folder, waiting_for_others
from assay.train import description as described
from assay.train import shards
from assay.train.description import DataDescription
from assay.train.documents import SPLITS, TRAIN, VALIDATION, Document, Survey, survey
from assay.train.encoding import EncodedDocuments, Partition, encode, training_texts
from assay.train.shards import Tokens
from assay.train.tokenizer import Tokenizer

_PATIENCE_S = 3600.0  # while another process prepares the same data


@dataclass(frozen=True, kw_only=True)
class PreparedData:
    """A folder of prepared data, checked when it was opened."""

    path: Path
    description: DataDescription
    folders: tuple[Path, ...] = ()  # of the user's plugins

    @property
    def digest(self) -> str:
        """The digest of the whole: the same dataset, tokenizer and tokens in the same order."""
        return self.description.digest

    @property
    def vocabulary(self) -> int:
        """The number of tokens that a model must know."""
        return self.description.vocabulary

    @cached_property
    def train(self) -> Tokens:
        """The tokens to train on."""
        return self._tokens(TRAIN)

    @cached_property
    def validation(self) -> Tokens:
        """The tokens that no step trains on."""
        return self._tokens(VALIDATION)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, out of its state in the description. A description may be anyone's, so
        the file of a tokenizer is never loaded because it names one."""
        name = self.description.tokenizer
        if name not in plugins.listing("tokenizers", self.folders):
            raise BadInput(
                f"{self.path} was prepared with the tokenizer {name!r}, which is not known here; "
                "give the folder of its file with --plugins"
            )
        _, module = _loaded("tokenizers", name, self.folders)
        return module.load(self.description.tokenizer_state)

    def _tokens(self, split: str) -> Tokens:
        paths = [self.path / entry.file for entry in self.description.shards[split]]
        return Tokens(paths, dtype=self.description.dtype)


def open_prepared(path: Path, *, folders: Sequence[Path] = ()) -> PreparedData:
    """The prepared data in a folder; a shard that is missing, cut or changed is refused."""
    description = described.read(path)
    described.require_data(path, description)
    return PreparedData(path=path, description=description, folders=tuple(folders))


def prepare(
    dataset: str,
    tokenizer: str,
    *,
    place: str = "",
    vocabulary: int = 0,
    validation_percent: float = 5,
    most_tokens: int = 0,
    folder: Path,
    folders: Sequence[Path] = (),
) -> PreparedData:
    """The data of a dataset in a folder of its own below `folder`, prepared where it is not yet.

    `vocabulary` 0 leaves its size to the tokenizer. `most_tokens`, for datasets of a hub, ends with
    the document that reaches so many tokens, both splits together; 0 is all.
    """
    if not 0 < validation_percent < 100:
        raise BadInput(
            f"validation_percent {validation_percent} is not between 0 and 100; give another, "
            "such as 5"
        )
    source, module = _loaded("datasets", dataset, folders)
    if source.literals["NEEDS_PLACE"] and not place:
        raise BadInput(f"the dataset {source.name} is read from a local path; give it as place")
    if most_tokens and not source.literals["NETWORK"]:
        raise BadInput(
            f"most_tokens {most_tokens} limits what is streamed from a hub; the dataset "
            f"{source.name} is local and prepared whole: leave the limit out"
        )
    learner, maker = _loaded("tokenizers", tokenizer, folders)
    request = _Request(
        source=source,
        documents=lambda: module.documents(place),
        place=place,
        learner=learner,
        make=maker.make,
        vocabulary=vocabulary,
        validation_percent=validation_percent,
        most_tokens=most_tokens,
    )
    seen = None if source.literals["NETWORK"] else _survey(request)
    target = make_folder(folder) / request.folder_name(seen)
    if not target.exists():
        with waiting_for_others(folder / f".{target.name}.lock", _PATIENCE_S):
            if not target.exists():  # nobody prepared it meanwhile
                _prepare(request, seen, target)
    named = [learner.path] if tokenizer.endswith(".py") else []  # the caller's own word
    return open_prepared(target, folders=[*folders, *named])


@dataclass(frozen=True, kw_only=True)
class _Request:
    """Data to be prepared: its source, its tokenizer, its sizes."""

    source: Plugin
    documents: Callable[[], Iterator[Document]]
    place: str
    learner: Plugin
    make: Callable[[Iterator[str], int], Tokenizer]
    vocabulary: int
    validation_percent: float
    most_tokens: int

    def folder_name(self, seen: Survey | None) -> str:
        """Dataset, tokenizer and a digest of all that the data depends on; texts of a hub are
        not looked at, so they count by their place alone."""
        settings = [
            described.VERSION,
            self.source.name,
            seen.digest if seen else self.place,
            self.learner.name,
            self.learner.literals["VERSION"],
            self.vocabulary,
            float(self.validation_percent),
            self.most_tokens,
        ]
        digest = hashlib.sha256(msgspec.json.encode(settings)).hexdigest()
        return f"{self.source.name}-{self.learner.name}-{digest[:16]}"


def _survey(request: _Request) -> Survey:
    seen = survey(request.documents(), request.validation_percent)
    if not seen.total:
        where = f" at {request.place}" if request.place else ""
        raise BadInput(f"the dataset {request.source.name}{where} has no document; give another")
    return seen


def _prepare(request: _Request, seen: Survey | None, target: Path) -> None:
    """Write all files beside `target` and give them its name at the end."""
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a process that was ended
    make_folder(partial)
    try:
        described.write(partial, _write_shards(request, seen, partial))
        with explained(target):
            os.rename(partial, target)
            sync_folder(target.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_shards(request: _Request, seen: Survey | None, folder: Path) -> DataDescription:
    tails = bool(seen and seen.tails)
    partition = Partition(validation_percent=request.validation_percent, tails=tails)
    texts = training_texts(request.documents(), partition, request.most_tokens)
    tokenizer = request.make(texts, request.vocabulary)
    dtype = shards.dtype_for(tokenizer.size)
    writers = {split: shards.ShardWriter(folder, split, dtype=dtype) for split in SPLITS}
    try:
        encoded = encode(request.documents(), tokenizer, partition, writers, request.most_tokens)
        entries = {split: writer.close() for split, writer in writers.items()}
    finally:
        for writer in writers.values():
            writer.discard()
    _require_expected(request, seen, encoded)
    state = tokenizer.state()
    return DataDescription(
        dataset=request.source.name,
        place=request.place,
        tokenizer=request.learner.name,
        tokenizer_state=state,
        vocabulary=tokenizer.size,
        end=tokenizer.end,
        dtype=dtype,
        validation_percent=request.validation_percent,
        most_tokens=request.most_tokens,
        split=partition.rule,
        documents=encoded.counts,
        tokens={split: writer.tokens for split, writer in writers.items()},
        shards=entries,
        documents_sha256=encoded.digest,
        python=platform.python_version(),
        digest=described.digest_of(request.source.name, state, entries),
    )


def _require_expected(request: _Request, seen: Survey | None, encoded: EncodedDocuments) -> None:
    name = request.source.name
    if seen is not None and encoded.digest != seen.digest:
        raise BadInput(
            f"documents of the dataset {name} changed while they were being prepared; leave them "
            "alone and prepare the data again"
        )
    if empty := [split for split in SPLITS if not encoded.counts[split]]:
        raise BadInput(
            f"of {sum(encoded.counts.values())} documents of the dataset {name}, none is in "
            f"{' or '.join(empty)}; give a larger most_tokens, or another validation_percent"
        )


def _loaded(kind: str, name: str, folders: Sequence[Path]) -> tuple[Plugin, ModuleType]:
    """A plugin and its module; CannotRunHere where a package that it needs is not installed."""
    plugin = plugins.find(kind, name, folders)
    if plugin.missing:
        instead = ""
        if plugin.literals.get("NETWORK"):
            instead = ", or get its files and give their folder: the dataset folder, with a place"
        raise CannotRunHere(
            f"{kind}/{plugin.name} needs {', '.join(plugin.missing)}, not installed here: "
            f"{plugins.how_to_install(plugin.missing)}{instead}"
        )
    return plugin, plugins.load(plugin)
