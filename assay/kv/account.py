"""Bytes of a cache before there is one: of a token, of a context, and how many sequences fit."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from assay.errors import BadInput
from assay.kv import contract
from assay.kv.contract import KVSpec, sealed_tokens

DENSE, LATENT = "dense", "mla_latent"
_SIZES = {  # by what this file calls them: the names that they have in configurations
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "heads": ("num_attention_heads", "n_head"),
    "width": ("hidden_size", "n_embd", "n_embed", "d_model"),
}
_WINDOWED, _FULL = "sliding_attention", "full_attention"
# Families whose layers keep keys and values of `num_key_value_heads` heads, all of one width: of
# every token, of a window, or as `layer_types` says for each layer. tests/kv/test_known_families.py
# holds them against the caches of transformers, where it has them.
_PLAIN = frozenset((
    "afmoe", "apertus", "arcee", "aria_text", "baichuan", "biogpt", "bitnet", "bloom", "codegen",
    "cohere", "cohere2", "ctrl", "cwm", "deepseek", "diffllama", "ernie4_5", "ernie4_5_moe",
    "exaone", "exaone4", "flex_olmo", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "glm4_moe",
    "glm4v_text", "gpt2", "gpt_neox", "gpt_neox_japanese", "gpt_oss", "gptj", "granite",
    "granitemoe", "granitemoeshared", "helium", "hunyuan_v1_dense", "hunyuan_v1_moe", "internlm",
    "internlm2", "jais2", "llama", "mellum", "minicpm", "minimax_m2", "ministral", "ministral3",
    "mistral", "mixtral", "nanochat", "olmo", "olmo2", "olmo3", "olmoe", "opt", "orion",
    "persimmon", "phi", "phi3", "phimoe", "qwen2", "qwen2_5_vl_text", "qwen2_moe", "qwen2_vl_text",
    "qwen3", "qwen3_moe", "qwen3_vl_moe_text", "qwen3_vl_text", "seed_oss", "smollm3", "solar_open",
    "stablelm", "starcoder2", "vaultgemma", "xverse",
))  # fmt: skip
# Families of DeepSeek's latents, which every layer keeps instead.
_LATENTS = frozenset((
    "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "kimi_k2", "minicpm3", "youtu",
))  # fmt: skip
# Families of images whose caches are those of their text_config, or of Qwen2 where they have none.
_AROUND_TEXT = frozenset((
    "aria", "aya_vision", "cohere2_vision", "gemma3", "glm4v", "idefics3", "internvl", "llava",
    "llava_next", "llava_onevision", "mistral3", "paligemma", "qwen2_5_vl", "qwen2_vl", "qwen3_vl",
    "qwen3_vl_moe", "smolvlm", "vipllava",
))  # fmt: skip
_STATES = ("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm", "recurrent_gemma")
# Families whose layers all have the window that the file names, where it lists no kinds.
_WINDOWED_THROUGHOUT = ("mistral", "mixtral", "phi3", "phimoe", "starcoder2")
# Words of keys that may say what layers keep. Such a key is refused unless it is read here, or is
# known to change nothing of it: a family may get a new kind of layer under its old name.
_ABOUT_LAYERS = re.compile(
    "layer|block|att|head|kv|qk|key|value|quer|window|chunk|cache|latent|lora|index|hybrid|pattern|"
    "interval|state|mamba|ssm|conv|recur|shar|linear|local|global|sparse|memory|mla|cross|encoder|"
    "slid|swa|use_cla"
)
_ABOUT_ELSE = re.compile(
    "norm|drop|expert|moe|mlp|bias|dense|implementation|flash|softmax|softcap|token_i|vision|image|"
    "^ignore|^output_|^rope|^no_rope|num_nextn_predict_layers"
)
_READ = frozenset((
    *(key for keys in _SIZES.values() for key in keys),
    "num_key_value_heads", "head_dim", "layer_types", "sliding_window", "use_sliding_window",
    "max_window_layers",  # beside a window that is used, layer_types is wanted
))  # fmt: skip
_CHANGE_NOTHING = frozenset((
    "attention_multiplier", "cache_implementation", "cla_share_factor", "clip_qkv",
    "decoder_sparse_step", "query_pre_attn_scalar", "reorder_and_upcast_attn",
    "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "shared_intermediate_size",
    "use_cache", "use_embedding_sharing", "use_parallel_block",
))  # fmt: skip
_READ_OF_LATENTS = frozenset((
    "kv_lora_rank", "q_lora_rank", "qk_head_dim", "qk_nope_head_dim", "qk_rope_head_dim",
    "v_head_dim",
))  # fmt: skip
# Keys that say again what `layer_types` says, where there is one.
_AGAIN = frozenset((
    "_sliding_window_pattern", "global_attn_every_n_layers", "layer_switch",
    "order_of_interleaved_layers", "sliding_window_pattern",
))  # fmt: skip
_NEUTRAL = {"full_attn_mod": 1}  # every layer has full attention
_LARGEST = 2**31
_MOST_LAYERS = 10_000


@dataclass(frozen=True, kw_only=True)
class CachedLayer:
    """Bytes that one layer keeps of a sequence: of all tokens, or of the newest `kept_tokens`. The
    newest `residual` ones, and those of a block that is not complete, it keeps whole."""

    per_token: int | Fraction
    fixed: int = 0
    kept_tokens: int | None = None  # of a layer with a window
    whole_per_token: int = 0
    residual: int = 0
    block: int = 1

    def bytes(self, tokens: int) -> int:
        """Bytes of a sequence of so many tokens."""
        kept = min(tokens, self.kept_tokens or tokens)
        sealed = sealed_tokens(kept, residual=self.residual, block=self.block)
        return self.fixed + int(sealed * self.per_token) + (kept - sealed) * self.whole_per_token


def cache_bytes(layers: Sequence[CachedLayer], tokens: int) -> int:
    """Return the bytes that all layers keep of one sequence."""
    return sum(layer.bytes(tokens) for layer in layers)


def sequences_that_fit(layers: Sequence[CachedLayer], *, room: int, tokens: int) -> int:
    """Return how many sequences of so many tokens fit into `room` bytes."""
    return max(0, room) // cache_bytes(layers, tokens)


def layout_of_config(config: Mapping[str, Any]) -> str:
    """Return the layout that the layers of a Hugging Face configuration have by themselves."""
    return LATENT if _text(config, "the config").get("kv_lora_rank") else DENSE


def layers_of_config(
    config: Mapping[str, Any],
    *,
    dtype: str,
    layout: str | None = None,
    residual: int = 0,
    place: str = "the config",
) -> list[CachedLayer]:
    """Return the layers of a Hugging Face configuration, in another layout than their own where one
    is named. BadInput for what it lacks."""
    text = _text(config, place)
    own = LATENT if _has_latents(text) else DENSE
    _refuse_unknown(config, place)
    count, heads = (_size(text, name, place) for name in ("layers", "heads"))
    if count > _MOST_LAYERS:
        raise BadInput(f"{place} has {count} layers; wanted at most {_MOST_LAYERS}")
    if own == LATENT:
        rank = _whole(text.get("kv_lora_rank"), "kv_lora_rank", place)
        rope = _whole(text.get("qk_rope_head_dim"), "qk_rope_head_dim", place)
        spec = KVSpec(dtype=dtype, head_dim=0, latents=(rank,), rope_dims=rope)
    else:
        given = text.get("num_key_value_heads")
        kv_heads = heads if given is None else _whole(given, "num_key_value_heads", place)
        head_dim = text.get("head_dim")
        if head_dim is None:
            head_dim = _divided(_size(text, "width", place), heads, "the width", place)
        _divided(heads, kv_heads, "the number of heads", place)
        spec = KVSpec(
            dtype=dtype,
            head_dim=_whole(head_dim, "head_dim", place),
            key_heads=kv_heads,
            value_heads=kv_heads,
        )
    chosen = contract.load(layout or own)
    streams = chosen.streams(spec)
    if not streams or (own == DENSE) != ("v" in {stream.name for stream in streams}):
        raise BadInput(f"{place} describes layers of layout {own}, for which {layout} cannot stand")
    whole = contract.load(own).bytes_per_token(spec)
    encoded = CachedLayer(
        per_token=chosen.bytes_per_token(spec),
        whole_per_token=whole,
        residual=residual if layout else 0,
        block=chosen.block,
    )
    return [
        CachedLayer(per_token=whole, kept_tokens=kept) if kept else encoded
        for kept in _kept_tokens(text, count, place)
    ]


def windowed_layers(layers: Sequence[CachedLayer]) -> int:
    """Return how many layers have a window, and stay whole in every layout."""
    return sum(layer.kept_tokens is not None for layer in layers)


def refuse_windows_alone(layers: Sequence[CachedLayer], place: str) -> None:
    """Refuse a model of which nothing would be encoded."""
    if windowed_layers(layers) == len(layers):
        raise BadInput(
            f"every layer of {place} has a window, and such layers stay whole, as transformers "
            "keeps them: nothing would be encoded"
        )


def _kept_tokens(text: Mapping[str, Any], count: int, place: str) -> list[int | None]:
    """The newest tokens that each layer keeps; None where it keeps all. The next token sees itself
    and one less than its window, and that is what transformers keeps."""
    window = text.get("sliding_window") if text.get("use_sliding_window", True) else None
    family = text.get("model_type")
    if window and not text.get("layer_types") and family not in _WINDOWED_THROUGHOUT:
        raise BadInput(
            f"{place}: sliding_window is {window!r} and no layer_types says which layers of "
            f"{family!r} have it; add layer_types, as transformers writes it with save_pretrained"
        )
    kinds = text.get("layer_types") or [_WINDOWED if window else _FULL] * count
    if not isinstance(kinds, list):
        raise BadInput(
            f"{place}: layer_types is {kinds!r}; wanted a list with a text for each layer"
        )
    unknown = sorted({str(kind) for kind in kinds} - {_WINDOWED, _FULL})
    if unknown or len(kinds) != count:
        what = f"kinds {', '.join(unknown)}" if unknown else f"{len(kinds)} entries"
        raise BadInput(
            f"{place}: layer_types has {what}; wanted {_FULL} or {_WINDOWED} for each of "
            f"{count} layers: what other kinds keep is not known here"
        )
    if _WINDOWED in kinds:
        window = _whole(window, "sliding_window", place, least=2)
    return [window - 1 if kind == _WINDOWED else None for kind in kinds]


def _refuse_unknown(config: Mapping[str, Any], place: str) -> None:
    """Refuse families that are not known, and keys about layers that are not read here. A file that
    names no family is counted by its keys."""
    text = _text(config, place)
    family = text.get("model_type")
    if family in _STATES:
        raise BadInput(f"{place}: {family} keeps states, not keys and values of tokens")
    known = _PLAIN | _LATENTS | _AROUND_TEXT
    for given in (family, config.get("model_type", family)):
        if given is not None and given not in known:
            raise BadInput(
                f"{place}: model_type is {given!r}, and what its layers keep is not known here; "
                "where every layer keeps keys and values as Llama's do, write model_type llama"
            )
    harmless = _READ | _CHANGE_NOTHING
    harmless |= _READ_OF_LATENTS if _has_latents(text) else frozenset()
    harmless |= _AGAIN if text.get("layer_types") else frozenset()
    unread = [
        key
        for part in ((text, config) if text is not config else (text,))
        for key, value in part.items()
        if value and key not in harmless and value != _NEUTRAL.get(key)
        if _ABOUT_LAYERS.search(key.lower()) and not _ABOUT_ELSE.search(key.lower())
    ]
    if unread:
        raise BadInput(
            f"{place}: {', '.join(dict.fromkeys(unread))} says what some layers keep, and is not "
            "read here; write num_key_value_heads and layer_types instead, where all layers keep "
            "keys and values"
        )


def _has_latents(text: Mapping[str, Any]) -> bool:
    """True for a family of latents; where no family is named, for a file that has their rank."""
    family = text.get("model_type")
    return family in _LATENTS or (family is None and bool(text.get("kv_lora_rank")))


def _divided(whole: int, by: int, what: str, place: str) -> int:
    if whole % by:
        raise BadInput(f"{place}: {what} is {whole}, which {by} does not divide; correct one")
    return whole // by


def _text(config: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """The part of a configuration that is about text: all of it, but for models of images too."""
    text = config.get("text_config", config)
    if not isinstance(text, Mapping):
        raise BadInput(f"{place}: text_config is {text!r}; wanted an object")
    return text


def _size(text: Mapping[str, Any], name: str, place: str) -> int:
    for key in _SIZES[name]:
        if key in text:
            return _whole(text[key], key, place)
    raise BadInput(f"{place} has none of {', '.join(_SIZES[name])}; wanted one of them")


def _whole(value: object, key: str, place: str, *, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _LARGEST:
        raise BadInput(
            f"{place}: {key} is {value!r}; wanted a whole number from {least} on, below 2**31"
        )
    return value
