"""Encoding: documents become tokens of two splits, with the end token after each document."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from assay.errors import BadInput
from assay.train.documents import SPLITS, TRAIN, VALIDATION, ContentDigest, Document, split_of
from assay.train.shards import ShardWriter
from assay.train.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Partition:
    """The rule by which documents are split."""

    validation_percent: float
    tails: bool = False  # where the end of every document has to be validation

    @property
    def rule(self) -> str:
        """The rule in words, for the description."""
        percent = f"{self.validation_percent:g}"
        if not self.tails:
            return (
                "by document: validation where the sha256 of its name, modulo 10,000, is below "
                f"{percent} * 100"
            )
        return (
            f"by tokens: the names leave a split without a document, so the last {percent} % of "
            "the tokens of every document are validation; a tokenizer learns from the first "
            f"{100 - self.validation_percent:g} % of its characters"
        )

    def training_text(self, document: Document) -> str | None:
        """The text from which a tokenizer may learn; None for a validation document."""
        if self.tails:
            return document.text[: len(document.text) - self._cut(len(document.text))]
        train = split_of(document.name, self.validation_percent) == TRAIN
        return document.text if train else None

    def parts(self, document: Document, tokens: np.ndarray) -> dict[str, np.ndarray]:
        """The tokens of a document by split; both halves of one that is cut have its end token."""
        if not self.tails:
            return {split_of(document.name, self.validation_percent): tokens}
        kept = len(tokens) - self._cut(len(tokens))
        first = np.append(tokens[:kept], tokens[-1]) if kept else tokens[:0]
        return {TRAIN: first, VALIDATION: tokens[kept:]}

    def _cut(self, count: int) -> int:
        """The share of validation among `count` tokens or characters, at least 1 where any."""
        return min(count, max(1, round(count * self.validation_percent / 100)))


def training_texts(
    documents: Iterator[Document], partition: Partition, most_tokens: int
) -> Iterator[str]:
    """Texts from which a tokenizer may learn, none of which is in validation.

    With a limit on tokens they end before it in bytes: a token has at least one, so all of them are
    among the documents that are encoded.
    """
    most_bytes = 0
    for number, document in enumerate(documents):
        most_bytes += len(document.text.encode()) + 1
        if most_tokens and number and most_bytes > most_tokens:
            return
        if (text := partition.training_text(document)) is not None:
            yield text


@dataclass(frozen=True, kw_only=True)
class EncodedDocuments:
    """Documents that were encoded, counted by split, and the digest of their texts."""

    counts: dict[str, int]
    digest: str


def encode(
    documents: Iterator[Document],
    tokenizer: Tokenizer,
    partition: Partition,
    writers: Mapping[str, ShardWriter],
    most_tokens: int,
) -> EncodedDocuments:
    """Write the tokens of documents, to the document that reaches `most_tokens`; 0 is no limit."""
    digest, counts = ContentDigest(), dict.fromkeys(SPLITS, 0)
    for document in documents:
        digest.add(document)
        tokens = _tokens(tokenizer, document)
        for split, part in partition.parts(document, tokens).items():
            writers[split].append(part)
            counts[split] += 1
        if most_tokens and sum(writer.tokens for writer in writers.values()) >= most_tokens:
            break
    return EncodedDocuments(counts=counts, digest=digest.hexdigest())


def _tokens(tokenizer: Tokenizer, document: Document) -> np.ndarray:
    tokens = np.array([*tokenizer.encode(document.text), tokenizer.end], dtype=np.int64)
    if tokens.max() >= tokenizer.size or tokens.min() < 0:
        raise BadInput(
            f"the tokenizer gave tokens from {tokens.min()} to {tokens.max()} for "
            f"{document.name}, its vocabulary has {tokenizer.size}; mend the tokenizer"
        )
    return tokens
