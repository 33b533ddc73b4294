"""Documents: what a dataset gives, in what order, and to which split each belongs."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.errors import BadInput

TRAIN = "train"
VALIDATION = "validation"
SPLITS = (TRAIN, VALIDATION)
_BUCKETS = 10_000


@dataclass(frozen=True, kw_only=True)
class Document:
    """A text with the name by which it is assigned to a split."""

    name: str
    text: str


def read_text(path: Path) -> str:
    """The text of a UTF-8 file with its line ends as they are; anything else is refused."""
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise BadInput(
            f"cannot read {path}: {error.strerror or error}; give the path of a text file"
        ) from error
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}); convert it, or "
            "move it out of the dataset"
        ) from error


def split_of(name: str, validation_percent: float) -> str:
    """The split of a document: a function of its own name, whatever other documents there are."""
    bucket = int.from_bytes(hashlib.sha256(name.encode()).digest(), "big") % _BUCKETS
    return VALIDATION if bucket < validation_percent * (_BUCKETS / 100) else TRAIN


class ContentDigest:
    """Digest of documents in their order, to be added one after the other."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, document: Document) -> None:
        """Take in a document, its name and its text."""
        name, text = document.name.encode(), document.text.encode()
        self._digest.update(b"%d %d\n" % (len(name), len(text)))
        self._digest.update(name)
        self._digest.update(text)

    def hexdigest(self) -> str:
        """The digest of all documents so far."""
        return self._digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Survey:
    """All documents of a dataset, counted and digested."""

    digest: str
    counts: dict[str, int]  # by the split that the names give

    @property
    def total(self) -> int:
        """The number of documents in all splits."""
        return sum(self.counts.values())

    @property
    def tails(self) -> bool:
        """True where validation has to be the end of every document: there is only one document,
        or the names leave a split empty."""
        return self.total == 1 or not all(self.counts.values())


def survey(documents: Iterator[Document], validation_percent: float) -> Survey:
    """Go through documents once, keeping none of them."""
    digest, counts = ContentDigest(), dict.fromkeys(SPLITS, 0)
    for document in documents:
        digest.add(document)
        counts[split_of(document.name, validation_percent)] += 1
    return Survey(digest=digest.hexdigest(), counts=counts)
