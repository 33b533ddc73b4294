"""Tokenizers as the rest of training sees them: text to token numbers and back."""

from collections.abc import Sequence
from typing import Any, Protocol


class Tokenizer(Protocol):
    """A vocabulary with its rules; what `make` and `load` of a file in tokenizers/ return."""

    @property
    def size(self) -> int:
        """Number of tokens in the vocabulary; every token is below it."""

    @property
    def end(self) -> int:
        """The token that stands after each document; `encode` never gives it."""

    def encode(self, text: str) -> list[int]:
        """Tokens of a text; `decode` gives the same text back."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of tokens; the end token is left out, bytes that are no UTF-8 are replaced."""

    def state(self) -> dict[str, Any]:
        """All that `load` needs to make it again, as JSON can hold it."""
