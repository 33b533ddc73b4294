"""Byte-level BPE, learnt from the training documents with the package `tokenizers`."""

from collections.abc import Iterator
from typing import Any

from assay.errors import BadInput
from assay.train.tokenizer import Tokenizer
from assay.train.tokenizers import _byte_level

REQUIRES = ("tokenizers",)

_DEFAULT_SIZE = 8_192
_LEAST = 257  # bytes and the end


def make(texts: Iterator[str], size: int) -> Tokenizer:
    """A tokenizer of `size` tokens, the last of them the end; the same texts give the same one."""
    size = size or _DEFAULT_SIZE
    if size < _LEAST:
        raise BadInput(
            f"a vocabulary of {size} is too small for bpe: 256 bytes and the end token are {_LEAST}"
        )
    model = _byte_level.trained(texts, size - 1)
    if (reached := model.get_vocab_size() + 1) < size:
        raise BadInput(
            f"the training documents give a vocabulary of {reached} tokens, {size} were asked of "
            f"bpe; give at most {reached}, or more documents"
        )
    return _byte_level.ByteLevelTokenizer(model=model, end=size - 1, size=size)


def load(state: dict[str, Any]) -> Tokenizer:
    """The tokenizer that was made before."""
    return _byte_level.load(state)
