"""A Llama out of a GGUF file, as transformers' LlamaForCausalLM, and the tokenizer in that file.

Names of tensors are translated by the package `gguf`; a file with tensors, rope scaling or a
tokenizer of another kind is refused.
"""

from pathlib import Path
from typing import Any

import numpy as np

from assay.errors import BadInput
from assay.models.pretrained import gguf_reader, language_model
from assay.models.pretrained.gguf_reader import GgufFile
from assay.models.pretrained.language_model import LanguageModel, ModelIdentity

# The ways to cut text into words before merges, as llama.cpp names them.
CUTS = ("gpt-2", "smollm")
_SPECIAL_TOKENS = {
    "bos_token": "tokenizer.ggml.bos_token_id",
    "eos_token": "tokenizer.ggml.eos_token_id",
    "unk_token": "tokenizer.ggml.unknown_token_id",
    "pad_token": "tokenizer.ggml.padding_token_id",
}


_KV_HEADS = "llama.attention.head_count_kv"


def load(
    path: Path, *, dtype: str = "float32", device: str = "cpu", attention: str = "sdpa"
) -> LanguageModel:
    """The Llama in the file at `path` and its tokenizer; another architecture is refused."""
    packages = ("torch", "transformers", "gguf")
    language_model.require_packages(packages, purpose=f"reading {path.name}")
    torch_dtype = language_model.torch_dtype(dtype)
    file = gguf_reader.read(path)
    tokenizer = tokenizer_of(file)
    model = language_model.place(_model(file, torch_dtype, attention), device)
    title, licence = file.fields.get("general.name"), file.fields.get("general.license")
    identity = ModelIdentity(
        name=str(path),
        title=title,
        architecture=type(model).__name__,
        parameters=language_model.count_parameters(model),
        digest=file.digest,
        stored=file.storage,
        licence=licence,
        why={
            "revision": "a file has none",
            **({} if title else {"title": "the file gives none"}),
            **({} if licence else {"licence": "the file names none"}),
        },
    )
    return LanguageModel(model, tokenizer, identity)


def _model(file: GgufFile, dtype: Any, attention: str) -> Any:
    import torch
    import transformers

    kind, config = transformers.LlamaForCausalLM, transformers.LlamaConfig(**_configuration(file))
    weights = {
        name: torch.from_numpy(_weight(file, stored, config))
        for stored, name in _names(file, kind, config).items()
    }
    model, problems = language_model.with_weights(
        kind, config, weights, dtype=dtype, attention=attention
    )
    if problems:
        raise BadInput(f"{file.path} does not hold the whole model: {problems}; fetch it again")
    return model


def _configuration(file: GgufFile) -> dict[str, Any]:
    """The fields of the file under the names of transformers' LlamaConfig."""
    if file.field("general.architecture") != "llama":
        raise BadInput(
            f"{file.path} holds a {file.field('general.architecture')}; only llama is read from "
            "GGUF: give a transformers folder instead"
        )
    heads, width = _size(file, "attention.head_count"), _size(file, "embedding_length")
    kv_heads = _size(file, "attention.head_count_kv") if _KV_HEADS in file.fields else heads
    layers = _size(file, "block_count")
    if width % (2 * heads) or heads % kv_heads or layers > len(file.stored):
        raise BadInput(
            f"{file.path} says {layers} layers of width {width} with {heads} heads and {kv_heads} "
            f"of keys, and has {len(file.stored)} tensors; no Llama is like that: fetch it again"
        )
    _require_plain_rope(file, head_dim=width // heads)
    return {
        "vocab_size": len(file.field("tokenizer.ggml.tokens")),
        "hidden_size": width,
        "intermediate_size": _size(file, "feed_forward_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": _size(file, "context_length"),
        "rms_norm_eps": file.field("llama.attention.layer_norm_rms_epsilon"),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": file.fields.get("llama.rope.freq_base", 10_000.0),
        },
        "tie_word_embeddings": "output.weight" not in file.stored,
        "bos_token_id": file.fields.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": file.fields.get("tokenizer.ggml.eos_token_id"),
        "pad_token_id": file.fields.get("tokenizer.ggml.padding_token_id"),
    }


def _size(file: GgufFile, name: str) -> int:
    size = file.field(f"llama.{name}")
    if not isinstance(size, int) or not 0 < size < 1 << 28:
        raise BadInput(f"{file.path}: llama.{name} is {size!r}, wanted a number above 0")
    return size


def _require_plain_rope(file: GgufFile, *, head_dim: int) -> None:
    turned = file.fields.get("llama.rope.dimension_count", head_dim)
    scaling = file.fields.get("llama.rope.scaling.type", "none")
    if turned != head_dim or scaling != "none":
        raise BadInput(
            f"{file.path} turns {turned} of {head_dim} dimensions with rope scaling {scaling}; "
            "only the whole head and no scaling are read: give a transformers folder instead"
        )


def _names(file: GgufFile, kind: type, config: Any) -> dict[str, str]:
    """transformers' name for each tensor of the file; one without is refused."""
    import gguf
    import torch

    with torch.device("meta"):
        wanted = kind(config).state_dict()
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    known = {names.get_name(name, try_suffixes=(".weight",)): name for name in wanted}
    if unknown := sorted(set(file.stored) - set(known)):
        raise BadInput(
            f"{file.path} holds a tensor {unknown[0]}, which a plain Llama does not have; "
            "give a transformers folder instead"
        )
    for name, stored in file.stored.items():
        shape, own = list(wanted[known[name]].shape), [int(size) for size in stored.shape[::-1]]
        if shape != own:
            raise BadInput(
                f"{file.path}: {name} is {own}, and its fields want {shape}; fetch it again"
            )
    return {name: known[name] for name in file.stored}


def _weight(file: GgufFile, name: str, config: Any) -> np.ndarray:
    weight = file.tensor(name)
    if name.endswith("attn_q.weight"):
        return halves_of_heads(weight, heads=config.num_attention_heads)
    if name.endswith("attn_k.weight"):
        return halves_of_heads(weight, heads=config.num_key_value_heads)
    return weight


def halves_of_heads(weight: np.ndarray, *, heads: int) -> np.ndarray:
    """Rows of a q or k projection [heads * head_dim, width] in the order transformers turns them.

    A rotary embedding turns dimensions in pairs. transformers pairs dimension i with
    i + head_dim / 2, llama.cpp 2 i with 2 i + 1, and its converter reorders the rows for that; here
    they are put back.
    """
    rows, width = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, width)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, width)


def tokenizer_of(file: GgufFile) -> Any:
    """A transformers tokenizer with the file's ids, special tokens and chat template."""
    from transformers import PreTrainedTokenizerFast

    tokens, fields = file.field("tokenizer.ggml.tokens"), file.fields
    special = {}
    for role, name in _SPECIAL_TOKENS.items():
        if name not in fields:
            continue
        if fields[name] not in range(len(tokens)):
            raise BadInput(
                f"{file.path} has {fields[name]} as {name}, and {len(tokens)} tokens; fetch it "
                "again"
            )
        special[role] = tokens[fields[name]]
    return PreTrainedTokenizerFast(
        tokenizer_object=_byte_level_bpe(file, tokens),
        clean_up_tokenization_spaces=False,
        model_max_length=file.field(f"{file.field('general.architecture')}.context_length"),
        chat_template=fields.get("tokenizer.chat_template"),
        **special,
    )


def _byte_level_bpe(file: GgufFile, tokens: list[str]) -> Any:
    from gguf import TokenType
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    _require_byte_level_bpe(file, tokens)
    merges = [tuple(pair.split(" ")) for pair in file.field("tokenizer.ggml.merges")]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    for pair in merges:
        if len(pair) != 2 or not {*pair, "".join(pair)} <= vocabulary.keys():
            raise BadInput(
                f"{file.path}: its tokenizer merges {' and '.join(pair)!r}, which are no two of "
                "its tokens that make a third; fetch the file again"
            )
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    cut = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    if file.field("tokenizer.ggml.pre") == "smollm":
        cut.insert(0, pre_tokenizers.Digits(individual_digits=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(cut)
    tokenizer.decoder = decoders.ByteLevel()

    def of_type(wanted: TokenType, *, special: bool) -> list[AddedToken]:
        """Tokens that are matched whole, before a text is cut into words."""
        types = file.field("tokenizer.ggml.token_type")
        whole = [token for token, kind in zip(tokens, types, strict=True) if kind == wanted]
        return [AddedToken(token, normalized=False, special=special) for token in whole]

    tokenizer.add_special_tokens(of_type(TokenType.CONTROL, special=True))
    tokenizer.add_tokens(of_type(TokenType.USER_DEFINED, special=False))
    return tokenizer


def _require_byte_level_bpe(file: GgufFile, tokens: list[str]) -> None:
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
    types = file.field("tokenizer.ggml.token_type")
    if len(types) != len(tokens):
        raise BadInput(f"{file.path} types {len(types)} of {len(tokens)} tokens; fetch it again")
