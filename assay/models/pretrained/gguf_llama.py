"""A Llama out of a GGUF file, as transformers' LlamaForCausalLM."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from assay.errors import BadInput
from assay.models.pretrained import gguf_file, gguf_tokenizer, language_model
from assay.models.pretrained.gguf_file import GgufFile
from assay.models.pretrained.language_model import LanguageModel, ModelIdentity

# llama.cpp's names of tensors and transformers'.
_OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_A_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.weight")


def load(
    path: Path, *, dtype: str = "float32", device: str = "cpu", attention: str = "sdpa"
) -> LanguageModel:
    """The Llama in the file at `path` and its tokenizer; another architecture is refused."""
    language_model.require(("torch", "transformers", "gguf"), purpose=f"reading {path.name}")
    wanted = language_model.torch_dtype(dtype)
    file = gguf_file.read(path)
    tokenizer = gguf_tokenizer.tokenizer_of(file)
    model = language_model.place(_model(file, wanted, attention), device)
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

    config = transformers.LlamaConfig(**_configuration(file))
    weights = {
        torch_name: torch.from_numpy(_weight(file, name, config))
        for name, torch_name in _names(file).items()
    }
    with language_model.quiet(), language_model.refusals_of_attention(attention):
        model, report = transformers.LlamaForCausalLM.from_pretrained(
            None,
            config=config,
            state_dict=weights,
            dtype=dtype,
            attn_implementation=attention,
            output_loading_info=True,
        )
    wrong = {kind: found for kind, found in report.items() if found}
    if wrong:
        raise BadInput(f"{file.path} does not hold the whole model: {wrong}; fetch it again")
    return model


def _configuration(file: GgufFile) -> dict[str, Any]:
    """The fields of the file under the names of transformers' LlamaConfig."""
    if file.field("general.architecture") != "llama":
        raise BadInput(
            f"{file.path} holds a {file.field('general.architecture')}; only llama is read from "
            "GGUF: give a transformers folder instead"
        )
    heads = file.field("llama.attention.head_count")
    width = file.field("llama.embedding_length")
    _require_plain_rope(file, head_dim=width // heads)
    return {
        "vocab_size": len(file.field("tokenizer.ggml.tokens")),
        "hidden_size": width,
        "intermediate_size": file.field("llama.feed_forward_length"),
        "num_hidden_layers": file.field("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": file.fields.get("llama.attention.head_count_kv", heads),
        "max_position_embeddings": file.field("llama.context_length"),
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


def _require_plain_rope(file: GgufFile, *, head_dim: int) -> None:
    turned = file.fields.get("llama.rope.dimension_count", head_dim)
    scaling = file.fields.get("llama.rope.scaling.type", "none")
    if turned != head_dim or scaling != "none":
        raise BadInput(
            f"{file.path} turns {turned} of {head_dim} dimensions with rope scaling {scaling}; "
            "only the whole head and no scaling are read: give a transformers folder instead"
        )


def _names(file: GgufFile) -> dict[str, str]:
    """transformers' name for each tensor of the file; one without is refused."""
    return {name: _torch_name(file, name) for name in file.stored}


def _torch_name(file: GgufFile, name: str) -> str:
    if name in _OUTSIDE:
        return _OUTSIDE[name]
    inside = _LAYER.fullmatch(name)
    if inside is None or inside[2] not in _IN_A_LAYER:
        raise BadInput(
            f"{file.path} holds a tensor {name}, which a plain Llama does not have; "
            "give a transformers folder instead"
        )
    return f"model.layers.{inside[1]}.{_IN_A_LAYER[inside[2]]}.weight"


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
