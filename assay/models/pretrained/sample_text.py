"""Real English text that every machine has: the language reference inside Python's library.

`help("assert")` is printed from it. It is prose with some code, half a million characters, the same
for one version of Python; another version has another text, so the digest travels with it.
"""

import hashlib
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

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


def read_given(text: str | None) -> SampleText:
    """The text in a file, from stdin where it is `-`, or the sample where none is given."""
    if text is None:
        return read()
    try:
        content = sys.stdin.buffer.read() if text == "-" else Path(text).read_bytes()
        words = content.decode()
    except OSError as error:
        raise BadInput(f"cannot read the text {text}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"the text {text} is not UTF-8 ({error}); save it as UTF-8") from error
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return SampleText(text=words, source="stdin" if text == "-" else text, digest=digest)
