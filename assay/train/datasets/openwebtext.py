"""OpenWebText: web pages that Reddit linked to, as GPT-2's training data, from the hub.

Untried: it was written where no hub answers. There, use the dataset folder with a local copy.
"""

from collections.abc import Iterator

from assay.train.datasets import _hub
from assay.train.documents import Document

REQUIRES = ("datasets",)
NETWORK = True


def documents(place: str) -> Iterator[Document]:
    """Pages in the order of the hub's files."""
    return _hub.stream(place, "Skylion007/openwebtext")
