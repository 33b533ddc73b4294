"""FineWeb-Edu: educational web pages, the hub's sample of 10 billion tokens.

Untried: it was written where no hub answers. There, use the dataset folder with a local copy.
"""

from collections.abc import Iterator

from assay.train.datasets import _hub
from assay.train.documents import Document

REQUIRES = ("datasets",)
NETWORK = True


def documents(place: str) -> Iterator[Document]:
    """Pages in the order of the hub's files."""
    return _hub.stream(place, "HuggingFaceFW/fineweb-edu", "sample-10BT")
