"""Real English text that every machine has: the language reference inside Python's library.

`help("assert")` is printed from it. It is prose with some code, half a million characters, the same
for one version of Python; another version has another text, so the digest travels with it.
"""

import hashlib
import platform
from dataclasses import dataclass

from assay.errors import BadInput, CannotRunHere


@dataclass(frozen=True, kw_only=True)
class SampleText:
    """A text, where it is from, and the digest of its UTF-8 bytes."""

    text: str
    source: str
    digest: str


def read(characters: int | None = None) -> SampleText:
    """The topics of Python's help in order of their names, or the first `characters` of them."""
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise CannotRunHere(
            "this Python came without pydoc_data, its own help; give a text with --text FILE"
        ) from error
    whole = "\n\n".join(topics[name].strip() for name in sorted(topics))
    if characters is not None and not 0 < characters <= len(whole):
        raise BadInput(
            f"{characters} characters were asked of a text of {len(whole)}; ask for fewer, "
            "or give a longer text with --text FILE"
        )
    text = whole[:characters]
    return SampleText(
        text=text,
        source=f"help topics of {platform.python_implementation()} {platform.python_version()}",
        digest=f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
    )
