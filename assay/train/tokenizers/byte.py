"""Bytes of UTF-8 as tokens, and an end token: nothing to learn, every text can be written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import BadInput
from assay.train.tokenizer import Tokenizer

_BYTES = 256


@dataclass(frozen=True)
class ByteTokenizer:
    """A token for each of the 256 bytes, and 256 as the end."""

    size: int = _BYTES + 1
    end: int = _BYTES

    def encode(self, text: str) -> list[int]:
        """The bytes of a text, those of a lone surrogate too."""
        return list(text.encode("utf-8", errors="surrogatepass"))

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of bytes; what is no UTF-8 is replaced by U+FFFD."""
        content = bytes(token for token in tokens if token != self.end)
        try:
            return content.decode("utf-8", errors="surrogatepass")
        except UnicodeDecodeError:
            return content.decode("utf-8", errors="replace")

    def state(self) -> dict[str, Any]:
        """Nothing: all of these are alike."""
        return {}


def make(texts: Iterator[str], size: int) -> Tokenizer:
    """The tokenizer of bytes; the texts are not looked at."""
    if size not in (0, _BYTES + 1):
        raise BadInput(
            f"a vocabulary of {size} was asked of the tokenizer byte, which has {_BYTES + 1}; "
            "leave the vocabulary out, or use bpe"
        )
    return ByteTokenizer()


def load(state: dict[str, Any]) -> Tokenizer:
    """The tokenizer of bytes."""
    return ByteTokenizer()
