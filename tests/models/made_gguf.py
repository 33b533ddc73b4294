"""A small Llama written as a GGUF file in the way llama.cpp's converter writes one."""

import json
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXT = "The year 1905, and 17 reasons why it isn't 2024: caf\u00e9.\n\n\tThe end.  The year."
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
HEADS, KV_HEADS, HEAD_DIM, LAYERS = 4, 2, 16, 2
WIDTH, HIDDEN = HEADS * HEAD_DIM, 96
NORM_EPSILON, ROPE_THETA = 1e-4, 1e5
QUANTISED = gguf.GGMLQuantizationType.Q4_1


def trained_tokenizer() -> Tokenizer:
    """Byte-level BPE that cuts like SmolLM, learned from TEXT."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=288, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    return tokenizer


def small_llama(*, vocabulary: int, tied: bool = True) -> transformers.LlamaForCausalLM:
    """The model that is written, with weights large enough that attention is not flat."""
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=WIDTH,
        intermediate_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        rms_norm_eps=NORM_EPSILON,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=tied,
        initializer_range=0.2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return transformers.LlamaForCausalLM(config).eval()


def for_llama_cpp(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of q and k as `convert_hf_to_gguf.py` orders them: dimension i next to i + half."""
    rows, width = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, width)
    return halves.swapaxes(1, 2).reshape(rows, width)


def gguf_tensors(model: transformers.LlamaForCausalLM) -> dict[str, np.ndarray]:
    """llama.cpp's tensors by name, from the modules of the model."""
    weights = {
        "token_embd.weight": model.model.embed_tokens.weight,
        "output_norm.weight": model.model.norm.weight,
    }
    if not model.config.tie_word_embeddings:
        weights["output.weight"] = model.lm_head.weight
    for index, layer in enumerate(model.model.layers):
        attention, mlp = layer.self_attn, layer.mlp
        weights |= {
            f"blk.{index}.attn_norm.weight": layer.input_layernorm.weight,
            f"blk.{index}.attn_q.weight": attention.q_proj.weight,
            f"blk.{index}.attn_k.weight": attention.k_proj.weight,
            f"blk.{index}.attn_v.weight": attention.v_proj.weight,
            f"blk.{index}.attn_output.weight": attention.o_proj.weight,
            f"blk.{index}.ffn_norm.weight": layer.post_attention_layernorm.weight,
            f"blk.{index}.ffn_gate.weight": mlp.gate_proj.weight,
            f"blk.{index}.ffn_up.weight": mlp.up_proj.weight,
            f"blk.{index}.ffn_down.weight": mlp.down_proj.weight,
        }
    arrays = {name: weight.detach().numpy() for name, weight in weights.items()}
    for name, array in arrays.items():
        if "attn_q" in name:
            arrays[name] = for_llama_cpp(array, HEADS)
        if "attn_k" in name:
            arrays[name] = for_llama_cpp(array, KV_HEADS)
    return arrays


def write(
    path: Path,
    tensors: dict[str, np.ndarray],
    tokenizer: Tokenizer,
    *,
    quantised: bool = False,
    architecture: str = "llama",
    cut: str = "smollm",
    add_bos: bool = False,
) -> Path:
    """Write the file; `quantised` stores the matrices of the layers in 4 bits."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("Small Llama")
    writer.add_license("apache-2.0")
    writer.add_block_count(LAYERS)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    writer.add_rope_freq_base(ROPE_THETA)
    writer.add_rope_dimension_count(HEAD_DIM)
    _add_tokenizer(writer, tokenizer, cut, add_bos)
    for name, array in tensors.items():
        if quantised and name.startswith("blk.") and array.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(array, QUANTISED), raw_dtype=QUANTISED)
        else:
            writer.add_tensor(name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer, cut: str, add_bos: bool) -> None:
    vocabulary = tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.get)
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    merges = [" ".join(pair) for pair in _merges(tokenizer)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(cut)
    writer.add_token_list(tokens)
    writer.add_token_types([control if token in SPECIAL else normal for token in tokens])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(add_bos)
    writer.add_add_space_prefix(False)


def _merges(tokenizer: Tokenizer) -> list[list[str]]:
    return json.loads(tokenizer.to_str())["model"]["merges"]
