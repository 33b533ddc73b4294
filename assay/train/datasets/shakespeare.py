"""Tiny Shakespeare, a local text file, in pieces of about 2,000 characters.

The file is one long text of speeches with blank lines between them. Pieces of whole speeches let it
be split into training and validation; put together again, they are the file.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from assay.train.documents import Document, read_text

NEEDS_PLACE = True

_PIECE_CHARACTERS = 2_000
_BETWEEN_SPEECHES = re.compile(r"(?<=\n\n)")


def documents(place: str) -> Iterator[Document]:
    """Pieces in their order; a piece ends with the speech that makes it long enough."""
    for number, text in enumerate(_pieces(read_text(Path(place)))):
        yield Document(name=f"piece-{number:05d}", text=text)


def _pieces(text: str) -> Iterator[str]:
    piece = ""
    for speech in _BETWEEN_SPEECHES.split(text):
        piece += speech
        if len(piece) >= _PIECE_CHARACTERS:
            yield piece
            piece = ""
    if piece:
        yield piece
