"""GPT-2's own tokenizer of 50,257 tokens, from a local folder or from the hub.

The folder holds vocab.json and merges.txt and is named by ASSAY_GPT2_TOKENIZER in the environment.
Without it the two files come from the Hugging Face hub, or from what it gave before: untried, for
this was written where no hub answers.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.errors import BadInput, CannotRunHere
from assay.models.pretrained import hub
from assay.train.tokenizer import Tokenizer
from assay.train.tokenizers import _byte_level

REQUIRES = ("tokenizers",)

VARIABLE = "ASSAY_GPT2_TOKENIZER"
_REPOSITORY = "openai-community/gpt2"
_FILES = ("vocab.json", "merges.txt")
_END = "<|endoftext|>"


def make(texts: Iterator[str], size: int) -> Tokenizer:
    """GPT-2's tokenizer; the texts are not looked at, and its size is what the files give."""
    paths = _local() if os.environ.get(VARIABLE) else _from_hub()
    tokenizer = _read(*paths)
    if size not in (0, tokenizer.size):
        raise BadInput(
            f"a vocabulary of {size} was asked of the tokenizer gpt2, which has "
            f"{tokenizer.size}; leave the vocabulary out, or use bpe"
        )
    return tokenizer


def load(state: dict[str, Any]) -> Tokenizer:
    """The tokenizer that was made before; its files are not needed again."""
    return _byte_level.load(state)


def _local() -> list[Path]:
    folder = Path(os.environ[VARIABLE])
    paths = [folder / name for name in _FILES]
    if absent := [path.name for path in paths if not path.is_file()]:
        raise BadInput(
            f"{VARIABLE} is {folder}, which has no {' and no '.join(absent)}; "
            f"name a folder with {' and '.join(_FILES)} of GPT-2"
        )
    return paths


def _from_hub() -> list[Path]:
    advice = (
        f"set {VARIABLE} to a folder with {' and '.join(_FILES)} of GPT-2, "
        "or use the tokenizer bpe, which learns from your documents"
    )
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise CannotRunHere(f"the package huggingface_hub is not installed; {advice}") from error
    local = not hub.answers()
    try:
        return [Path(hf_hub_download(_REPOSITORY, n, local_files_only=local)) for n in _FILES]
    except Exception as error:  # of whatever library carries the connection
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        reason = f"{hub.absence()}, and no download is kept" if local else reason
        raise CannotRunHere(
            f"the Hugging Face hub did not give {_REPOSITORY} ({reason}); {advice}"
        ) from error


def _read(vocabulary: Path, merges: Path) -> Tokenizer:
    from tokenizers import models

    try:
        model = _byte_level.empty(models.BPE.from_file(str(vocabulary), str(merges)))
    except Exception as error:  # the package raises Exception itself
        raise BadInput(
            f"{vocabulary} and {merges} are no vocabulary and merges of a BPE ({error}); "
            "get both again"
        ) from error
    end = model.token_to_id(_END)
    if end is None:
        raise BadInput(f"{vocabulary} has no token {_END}; give the vocabulary of GPT-2")
    return _byte_level.ByteLevelTokenizer(model=model, end=end, size=model.get_vocab_size())
