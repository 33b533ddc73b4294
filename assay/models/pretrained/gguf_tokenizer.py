"""The tokenizer inside a GGUF file: byte-level BPE from its vocabulary and merges."""

from typing import Any

from assay.errors import BadInput
from assay.models.pretrained.gguf_file import GgufFile

_CONTROL, _USER_DEFINED = 3, 4  # token types, of gguf.TokenType
# How text is cut into words before merges, by the name that llama.cpp gives it.
CUTS = ("gpt-2", "smollm")
_SPECIAL = {
    "bos_token": "tokenizer.ggml.bos_token_id",
    "eos_token": "tokenizer.ggml.eos_token_id",
    "unk_token": "tokenizer.ggml.unknown_token_id",
    "pad_token": "tokenizer.ggml.padding_token_id",
}


def tokenizer_of(file: GgufFile) -> Any:
    """A transformers tokenizer with the file's ids, special tokens and chat template."""
    from transformers import PreTrainedTokenizerFast

    tokens = file.field("tokenizer.ggml.tokens")
    special = {
        role: tokens[file.fields[field]] for role, field in _SPECIAL.items() if field in file.fields
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=_byte_level_bpe(file, tokens),
        clean_up_tokenization_spaces=False,
        model_max_length=file.field(f"{file.field('general.architecture')}.context_length"),
        chat_template=file.fields.get("tokenizer.chat_template"),
        **special,
    )


def _byte_level_bpe(file: GgufFile, tokens: list[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models

    _require_byte_level_bpe(file)
    merges = [tuple(pair.split(" ")) for pair in file.field("tokenizer.ggml.merges")]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = _cut(file.field("tokenizer.ggml.pre"))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(_of_type(file, tokens, _CONTROL))
    tokenizer.add_tokens(_of_type(file, tokens, _USER_DEFINED))
    return tokenizer


def _of_type(file: GgufFile, tokens: list[str], wanted: int) -> list[Any]:
    """The tokens that are found in a text whole, before it is cut into words."""
    from tokenizers import AddedToken

    types = file.field("tokenizer.ggml.token_type")
    if len(types) != len(tokens):
        raise BadInput(f"{file.path} types {len(types)} of {len(tokens)} tokens; fetch it again")
    special = wanted == _CONTROL
    return [
        AddedToken(token, normalized=False, special=special)
        for token, kind in zip(tokens, types, strict=True)
        if kind == wanted
    ]


def _require_byte_level_bpe(file: GgufFile) -> None:
    kind, cut = file.field("tokenizer.ggml.model"), file.fields.get("tokenizer.ggml.pre")
    if kind != "gpt2" or cut not in CUTS:
        raise BadInput(
            f"{file.path} has a tokenizer of kind {kind} ({cut}); only byte-level BPE (gpt2) that "
            f"cuts text like {' or '.join(CUTS)} is read: give a transformers folder instead"
        )
    for field in ("tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_space_prefix"):
        if file.fields.get(field):
            raise BadInput(
                f"{file.path} says {field}, which is not followed here; give a transformers folder"
            )


def _cut(name: str) -> Any:
    from tokenizers import pre_tokenizers

    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if name == "gpt-2":
        return words
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])
