"""Byte-level BPE by the package `tokenizers`: any text comes back exactly.

The end token is not registered with the package, which would find its spelling in texts: a text
with the words <|endoftext|> in it is encoded as any other.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import BadInput

_AGAIN = "prepare the data again"


@dataclass(frozen=True)
class ByteLevelTokenizer:
    """A model of the package, the number of the end token and the size with it."""

    model: Any  # tokenizers.Tokenizer
    end: int
    size: int

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, as the merges give them."""
        [encoding] = self.model.encode_batch_fast([text])  # without offsets: half the time
        return encoding.ids

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens without the end; what is no UTF-8 is replaced by U+FFFD."""
        return self.model.decode([int(token) for token in tokens if token != self.end])

    def state(self) -> dict[str, Any]:
        """The package's own JSON of the model, and the end token."""
        return {"end": self.end, "size": self.size, "model": json.loads(self.model.to_str())}


def load(state: dict[str, Any]) -> ByteLevelTokenizer:
    """The tokenizer whose `state` this is."""
    from tokenizers import Tokenizer

    numbers = [state.get("end"), state.get("size")]
    if not all(isinstance(number, int) and 0 <= number < 1 << 32 for number in numbers):
        raise BadInput(f"the state of a tokenizer has end and size {numbers}; {_AGAIN}")
    try:
        model = Tokenizer.from_str(json.dumps(state.get("model")))
    except Exception as error:  # the package has no class of its own for this
        raise BadInput(f"the model of a tokenizer cannot be read: {error}; {_AGAIN}") from error
    return ByteLevelTokenizer(model=model, end=state["end"], size=state["size"])


def empty(model: Any) -> Any:
    """The package's tokenizer around a BPE model: bytes in, bytes out, split as GPT-2 splits."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def trained(texts: Iterator[str], tokens: int) -> Any:
    """The package's tokenizer with the 256 bytes and as many merges as make `tokens` tokens, or
    fewer where the texts have no more pairs."""
    from tokenizers import models, pre_tokenizers, trainers

    trainer = trainers.BpeTrainer(
        vocab_size=tokens,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer = empty(models.BPE())
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
