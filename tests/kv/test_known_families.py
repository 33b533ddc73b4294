"""Families whose caches `kv sizes` counts: as their configurations are published, none refused."""

import pytest

torch = pytest.importorskip("torch")

from assay.kv import account
from assay.kv.account import layers_of_config

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 1, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
    "max_position_embeddings": 8192, "mlp_bias": False, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 128256,
}  # fmt: skip
# By family: keys that its configurations have on the hub, and bytes of a token in 16 bits.
PUBLISHED = {
    "llama": ({}, 131072),
    "qwen2": (
        {
            "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
            "num_key_value_heads": 4, "use_sliding_window": False, "sliding_window": 131072,
            "max_window_layers": 28,
        },
        57344,
    ),
    "qwen2_5_vl": (
        {
            "vision_config": {"depth": 32}, "vision_start_token_id": 1, "vision_token_id": 2,
            "use_sliding_window": False, "sliding_window": 32768, "max_window_layers": 70,
        },
        131072,
    ),
    "qwen3_moe": (
        {
            "head_dim": 128, "decoder_sparse_step": 1, "mlp_only_layers": [], "num_experts": 128,
            "norm_topk_prob": True, "moe_intermediate_size": 768, "max_window_layers": 48,
        },
        131072,
    ),
    "phi3": (
        {
            "sliding_window": 262144, "full_attn_mod": 1, "interpolate_factor": 1,
            "lm_head_bias": False, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "auto_map": {"a": "b"},
        },
        131072,
    ),
    "bloom": (
        {
            "num_hidden_layers": None, "num_key_value_heads": None, "hidden_size": None,
            "apply_residual_connection_post_layernorm": False, "attention_softmax_in_fp32": True,
            "bias_dropout_fusion": True, "masked_softmax_fusion": True, "n_embed": 1024,
            "n_layer": 24, "num_attention_heads": 16, "offset_alibi": 100, "skip_bias_add": True,
            "skip_bias_add_qkv": False, "slow_but_exact": False,
        },
        98304,
    ),
    "gemma2": (
        {
            "head_dim": 128, "sliding_window": 4096, "attn_logit_softcapping": 50.0,
            "cache_implementation": "hybrid", "query_pre_attn_scalar": 256,
            "layer_types": ["sliding_attention", "full_attention"] * 16,
        },
        131072,
    ),
    "deepseek_v3": (
        {
            "num_attention_heads": 128, "num_hidden_layers": 61, "num_key_value_heads": 128,
            "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64, "v_head_dim": 128, "first_k_dense_replace": 3,
            "moe_layer_freq": 1, "num_nextn_predict_layers": 1, "n_shared_experts": 1,
            "quantization_config": {"fmt": "e4m3"},
        },
        70272,
    ),
    "olmo": ({"clip_qkv": 8.0}, 131072),
    "granite": ({"attention_multiplier": 0.0078125, "logits_scaling": 16.0}, 131072),
    "ernie4_5": ({"compression_ratio": 1.0, "use_bias": False, "head_dim": 128}, 131072),
    "smollm3": (
        {
            "layer_types": ["full_attention"] * 32, "no_rope_layers": [1, 1, 1, 0] * 8,
            "no_rope_layer_interval": 4, "use_sliding_window": False, "max_window_layers": 28,
        },
        131072,
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", PUBLISHED)
def test_published_configurations_are_counted(family):
    keys, wanted = PUBLISHED[family]
    config = {k: v for k, v in {**LLAMA, "model_type": family, **keys}.items() if v is not None}
    layers = layers_of_config(config, dtype="bfloat16")
    assert sum(layer.per_token for layer in layers) == wanted


def test_a_model_of_images_is_counted_by_its_text():
    config = {
        "model_type": "llava", "ignore_index": -100, "image_token_index": 32000,
        "vision_feature_layer": -2, "vision_feature_select_strategy": "default",
        "vision_config": {"num_hidden_layers": 24}, "text_config": LLAMA,
    }  # fmt: skip
    assert sum(layer.per_token for layer in layers_of_config(config, dtype="bfloat16")) == 131072


def test_no_configuration_that_transformers_writes_of_a_known_family_is_refused():
    """All their keys, harmless ones among them, as save_pretrained writes them."""
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    known = sorted(account._PLAIN | account._LATENTS)
    here = [family for family in known if family in mapping]
    assert len(here) > 50
    for family in here:
        config = mapping[family](**({"head_dim": 128} if family == "glm4_moe" else {})).to_dict()
        layers = layers_of_config(config, dtype="bfloat16", place=family)
        assert all(layer.per_token > 0 for layer in layers)


SMALL = {
    "vocab_size": 512, "hidden_size": 64, "n_embd": 64, "intermediate_size": 64, "ffn_dim": 64,
    "n_inner": 64, "num_hidden_layers": 4, "n_layer": 4, "num_attention_heads": 4, "n_head": 4,
    "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8, "layer_types": None,
    "num_experts": 4, "n_routed_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "n_group": 1,
    "topk_group": 1, "first_k_dense_replace": 1, "word_embed_proj_dim": 64, "q_lora_rank": 16,
    "kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16,
    "rotary_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
LENGTHS = (5, 21, 22, 30)
ROTARY = {"rope_theta": 10000.0, "rope_type": "default", "mrope_section": [2, 3, 3]}


def small_model(family):
    """A model of transformers of a family, with random weights, and what its config says."""
    transformers = pytest.importorskip("transformers")
    if family not in (mapping := transformers.CONFIG_MAPPING):
        pytest.skip(f"transformers has no {family}")
    written = mapping[family](**({"head_dim": 128} if family == "glm4_moe" else {})).to_dict()
    optional = ("layer_types", "pad_token_id", "head_dim")
    given = {k: v for k, v in SMALL.items() if written.get(k) is not None or k in optional}
    if family in account._LATENTS:
        given = {**given, "num_key_value_heads": 4}
        given.pop("head_dim", None)
    if "_vl_" in family:
        given["rope_parameters"] = ROTARY
    torch.manual_seed(0)
    config = mapping[family](**{k: v for k, v in given.items() if k in written})
    auto = transformers.AutoModelForCausalLM
    auto = auto if type(config) in auto._model_mapping else transformers.AutoModel
    return auto.from_config(config).eval(), config


# Of these a configuration this small is none to transformers, or its own code fails.
NOT_RUN = ("deepseek_v2", "glm4v_text")


@pytest.mark.parametrize("family", sorted({*account._PLAIN, *account._LATENTS} - {*NOT_RUN}))
def test_caches_of_transformers_keep_what_is_counted(family):
    """A window of 8 keeps 7 tokens once there are as many, as the next token sees itself too."""
    from transformers import DynamicCache

    model, config = small_model(family)
    layers = layers_of_config(config.to_dict(), dtype="float32", place=family)
    cache = DynamicCache(config=config)
    with torch.no_grad():
        for begin, end in zip((0, *LENGTHS), LENGTHS, strict=False):
            ids = torch.randint(3, 100, (1, end - begin))
            cache = model(input_ids=ids, past_key_values=cache, use_cache=True).past_key_values
            kept = sum(each.nbytes for layer in cache.layers for each in (layer.keys, layer.values))
            assert kept == account.cache_bytes(layers, end)
