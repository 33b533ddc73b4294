"""WikiText, a local text file, in articles: each begins at a line ` = Title = `.

Sections have more equals signs. A formula may stand on a line of the same form; a title has an
empty line before and after it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from assay.errors import BadInput
from assay.train.documents import Document, read_text

NEEDS_PLACE = True

_TITLE = re.compile(r"(?:\A|(?<=\n)) ?= (?P<title>[^=\n][^\n]*?) = ?\n(?= ?\n)")
_EMPTY_LINE_BEFORE = re.compile(r"(?:\A|\n) ?\n\Z|\A\Z")


def documents(place: str) -> Iterator[Document]:
    """Articles in their order, named by number and title, for titles may repeat."""
    path = Path(place)
    text = read_text(path)
    titles = [match for match in _TITLE.finditer(text) if _follows_empty_line(text, match.start())]
    if not titles:
        raise BadInput(
            f"{path} has no line of the form ' = Title = ' between empty lines, so it has no "
            "articles; give a file of WikiText, or use the dataset folder"
        )
    starts = [0, *(match.start() for match in titles[1:]), len(text)]
    for number, match in enumerate(titles):
        article = text[starts[number] : starts[number + 1]]
        yield Document(name=f"{number:05d} {match['title']}", text=article)


def _follows_empty_line(text: str, start: int) -> bool:
    return _EMPTY_LINE_BEFORE.search(text[max(0, start - 3) : start]) is not None
