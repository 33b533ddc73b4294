"""The parameters that checkpoints hold: names, shapes, dtypes, and how they start."""

import importlib
from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import jax.numpy as jnp
from flax import nnx
from gemma_cases import (
    HEAD_DIM,
    LAYOUTS,
    RANK,
    VOCABULARY,
    WIDTHS,
    attention,
    compiled,
    configs,
    fast_attention,
    fast_model,
    model,
)

from assay.models.gemma.attention import MixtureAttention
from assay.models.gemma.config import (
    PALIGEMMA_VOCAB_SIZE,
    ExpertConfig,
    stock_config,
    stock_keywords,
)
from assay.models.gemma.fast.attention import AutoregressiveAttention
from assay.models.gemma.fast.model import AutoregressiveModel, ZeroEmbedder
from assay.models.gemma.modules import Embedder

KEY = jax.random.key(0, impl="rbg")  # compiles quickly


def shapes(parameters):
    """{"layers/attn/q_einsum/w": shape}; all are float32."""
    leaves = jax.tree_util.tree_leaves_with_path(parameters["params"])
    assert all(leaf.dtype == jnp.float32 for _, leaf in leaves)
    return {"/".join(str(key.key) for key in path): leaf.shape for path, leaf in leaves}


def wanted_attention(layout, width, *, suffix="", with_lora=False):
    heads, kv_heads = LAYOUTS[layout]
    if heads == kv_heads:
        weights = {"qkv_einsum": (3, heads, width, HEAD_DIM)}
    else:
        weights = {
            "q_einsum": (heads, width, HEAD_DIM),
            "kv_einsum": (2, kv_heads, width, HEAD_DIM),
        }
    weights["attn_vec_einsum"] = (heads, HEAD_DIM, width)
    wanted = {}
    for name, shape in weights.items():
        wanted[f"{name}{suffix}/w"] = shape
        if with_lora:
            wanted[f"{name}{suffix}/lora_a"] = (*shape[:-1], RANK)
            wanted[f"{name}{suffix}/lora_b"] = (*shape[:-2], RANK, shape[-1])
    return wanted


@pytest.mark.parametrize("with_lora", [False, True], ids=["plain", "lora"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_and_shapes_of_attention(layout, with_lora):
    first = wanted_attention(layout, WIDTHS[0], with_lora=with_lora)
    second = wanted_attention(layout, WIDTHS[1], suffix="_1", with_lora=with_lora)
    assert shapes(attention(layout, with_lora=with_lora).parameters) == first | second
    assert shapes(fast_attention(layout, with_lora=with_lora).parameters) == first


def test_an_expert_left_out_at_first_has_no_parameters():
    module = MixtureAttention(configs=configs())
    x = jnp.zeros((1, 2, WIDTHS[1]))
    rest = (jnp.zeros((1, 2), int), jnp.ones((1, 1, 2, 2), bool), None)
    made = jax.eval_shape(module.init, KEY, [None, x], *rest)
    assert set(made["params"]) == {"q_einsum_1", "kv_einsum_1", "attn_vec_einsum_1"}


def wanted_mlp(width, *, suffix="", with_lora=False):
    wanted = {f"mlp{suffix}/gating_einsum": (2, width, 32), f"mlp{suffix}/linear": (32, width)}
    if with_lora:
        wanted |= {
            f"mlp{suffix}/gating_einsum_lora_a": (2, width, RANK),
            f"mlp{suffix}/gating_einsum_lora_b": (2, RANK, 32),
            f"mlp{suffix}/linear_lora_a": (32, RANK),
            f"mlp{suffix}/linear_lora_b": (RANK, width),
        }
    return wanted


def in_layers(wanted, depth=2):
    return {f"layers/{name}": (depth, *shape) for name, shape in wanted.items()}


@pytest.mark.parametrize("with_lora", [False, True], ids=["plain", "lora"])
def test_names_and_shapes_of_the_models(with_lora):
    lone = {"embedder/input_embedding": (VOCABULARY, WIDTHS[0]), "final_norm/scale": WIDTHS[:1]}
    layer = {}
    for width, suffix in zip(WIDTHS, ("", "_1"), strict=True):
        weights = wanted_attention("one kv head", width, suffix=suffix, with_lora=with_lora)
        layer |= {f"attn/{name}": shape for name, shape in weights.items()}
        layer |= wanted_mlp(width, suffix=suffix, with_lora=with_lora)
        layer |= {
            f"{norm}{suffix}/scale": (width,) for norm in ("pre_attention_norm", "pre_ffw_norm")
        }
    one_expert = {name: shape for name, shape in layer.items() if "_1/" not in name}
    both = lone | {"final_norm_1/scale": WIDTHS[1:]} | in_layers(layer)
    assert shapes(model(with_lora=with_lora).parameters) == both
    assert shapes(fast_model(with_lora=with_lora).parameters) == lone | in_layers(one_expert)


def test_a_condition_replaces_the_scale_of_its_expert():
    actual, width = shapes(model(adaptive=True).parameters), WIDTHS[1]
    norms = {"layers/pre_attention_norm_1": (2,), "layers/pre_ffw_norm_1": (2,), "final_norm_1": ()}
    for name, depth in norms.items():
        assert actual[f"{name}/Dense_0/kernel"] == (*depth, width, 3 * width)
        assert actual[f"{name}/Dense_0/bias"] == (*depth, 3 * width)
        assert f"{name}/scale" not in actual
    assert "final_norm/scale" in actual


HEADS, WIDE, DEEP = 8, 48, 64


def deviations(parameters):
    return {name: float(np.std(held["w"])) for name, held in parameters["params"].items()}


@pytest.mark.parametrize("kv_heads", [pytest.param(HEADS, marks=pytest.mark.slow), 2])
def test_how_attention_starts(kv_heads):
    """1 / sqrt(fan-in); the output projection counts heads in gemma, and does not in the other."""
    rest = (jnp.zeros((1, 1), int), jnp.ones((1, 1, 1, 1), bool), None)
    x = jnp.zeros((1, 1, WIDE))
    config = ExpertConfig(WIDE, 1, 8, HEADS, kv_heads, DEEP)
    first = compiled(MixtureAttention([config]).init)(KEY, [x], *rest)
    fast = AutoregressiveAttention(HEADS, kv_heads, WIDE, DEEP)
    second = compiled(partial(fast.init, decode=False))(KEY, x, *rest)
    for actual, out in (
        (deviations(first), (HEADS * DEEP) ** -0.5),
        (deviations(second), DEEP**-0.5),
    ):
        assert actual.pop("attn_vec_einsum") == pytest.approx(out, rel=0.02)
        assert all(value == pytest.approx(WIDE**-0.5, rel=0.02) for value in actual.values())


def test_how_the_tables_start():
    """gemma's is drawn, the other's is zero: it is meant to be loaded."""
    tokens = np.zeros((1, 1), int)
    first, second = (
        compiled(partial(kind(200, WIDE).init, method="encode"))(KEY, tokens)["params"]
        for kind in (Embedder, ZeroEmbedder)
    )
    assert np.std(first["input_embedding"]) == pytest.approx(0.01, rel=0.05)
    assert second["input_embedding"].shape == (200, WIDE) and not np.any(second["input_embedding"])


@pytest.mark.slow
def test_how_the_models_start():
    """Adapters are small, B as well; norms at zero; no layer like another."""
    case = model(with_lora=True, adaptive=True)
    init = partial(case.module.init_with_output, use_adarms=[False, True], method="init")
    first = compiled(init)(KEY)[1]["params"]
    init = partial(fast_model().module.init_with_output, method="init")
    second = compiled(init)(KEY)[1]["params"]
    assert not np.any(second["embedder"]["input_embedding"])
    layer = first["layers"]
    for name in ("lora_a", "lora_b"):
        assert np.std(layer["attn"]["q_einsum"][name]) == pytest.approx(0.01, rel=0.15)
    assert not np.any(layer["pre_ffw_norm"]["scale"])
    assert not np.any(layer["pre_ffw_norm_1"]["Dense_0"]["kernel"])
    for gates in (layer["mlp"]["gating_einsum"], second["layers"]["mlp"]["gating_einsum"]):
        assert np.std(gates) == pytest.approx(WIDTHS[0] ** -0.5, rel=0.05)
    down = layer["mlp"]["linear"]
    assert np.std(down) == pytest.approx(32**-0.5, rel=0.08)
    assert not np.array_equal(down[0], down[1]), "the layers start apart"


STOCK = {  # width, depth, mlp_dim, heads, kv heads, head_dim, rank of the adapters
    "dummy": (64, 4, 128, 8, 1, 16, None),
    "gemma_300m": (1024, 18, 4096, 8, 1, 256, None),
    "gemma_300m_lora": (1024, 18, 4096, 8, 1, 256, 32),
    "gemma_2b": (2048, 18, 16384, 8, 1, 256, None),
    "gemma_2b_lora": (2048, 18, 16384, 8, 1, 256, 16),
}


@pytest.mark.parametrize("variant", STOCK)
def test_the_stock_sizes(variant):
    *sizes, rank = STOCK[variant]
    config = stock_config(variant)
    actual = (config.width, config.depth, config.mlp_dim, config.num_heads, config.num_kv_heads)
    assert [*actual, config.head_dim] == sizes
    assert set(config.lora_configs) == (set() if rank is None else {"attn", "ffn"})
    for adapters in config.lora_configs.values():
        assert (adapters.rank, adapters.scaling_value) == (rank, 1.0)
    assert stock_config(variant) is not config


def test_the_autoregressive_sizes_are_keywords_and_attributes():
    settings = stock_keywords("gemma_2b_lora")
    assert settings.width == settings["width"] == 2048 and settings.scan
    assert settings.vocab_size == PALIGEMMA_VOCAB_SIZE == 257_152
    module = AutoregressiveModel(**settings, embed_dtype="bfloat16", cache_dtype="bfloat16")
    made = jax.eval_shape(partial(module.init_with_output, method="init"), KEY)[1]
    assert made["params"]["layers"]["attn"]["kv_einsum"]["lora_a"].shape == (18, 2, 1, 2048, 16)
    assert "lora_configs" not in stock_keywords("gemma_2b")
    settings.width = 8
    assert settings["width"] == 8
    with pytest.raises(AttributeError, match="no setting 'height'"):
        _ = settings.height


def test_the_nnx_bridge_takes_the_models():
    """Policies hold them so: initialised by the method `init`, called by their fields' names."""
    whole = model().module

    def make():
        bridged = nnx.bridge.ToNNX(whole, rngs=nnx.Rngs(0))
        return bridged.lazy_init(method="init", use_adarms=[False, False])

    state = nnx.to_pure_dict(nnx.state(nnx.eval_shape(make), nnx.Param))
    assert shapes({"params": state}) == shapes(model().parameters)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("model", "Attention Block Config Embedder FeedForward KVCache Module RMSNorm Variant"),
        ("model", "PALIGEMMA_VOCAB_SIZE get_config"),
        ("fast.model", "Attention Block Einsum Embedder KVCache Module RMSNorm Variant get_config"),
    ],
)
def test_openpis_names_are_there(module, names):
    """A policy that imports openpi's gemma.py or gemma_fast.py may import these instead."""
    stand_in = importlib.import_module(f"assay.models.gemma.{module}")
    assert [name for name in names.split() if not hasattr(stand_in, name)] == []
