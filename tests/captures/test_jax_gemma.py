"""Gemma layers: captured in training, prefill and decode, and replayed to the bit."""

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import assay
from assay.captures.store import Store
from assay.models.gemma.attention import MixtureAttention
from assay.models.gemma.config import ExpertConfig
from assay.models.gemma.fast.attention import AutoregressiveAttention
from assay.models.gemma.fast.model import AutoregressiveModel

BATCH, PROMPT, SLOTS, DEPTH, WIDTH = 2, 3, 5, 2, 8
SIZES = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 4}
# Every rounding where it is written: XLA may keep bfloat16 wider inside what it fuses, and fuses a
# layer in a scan otherwise than one alone.
ROUNDED = {"xla_allow_excess_precision": False}
if jax.default_backend() == "cpu":
    ROUNDED["xla_backend_optimization_level"] = 0  # quick compilation before quick running
jit = partial(jax.jit, compiler_options=ROUNDED)


def fast_model(dtype="bfloat16"):
    return AutoregressiveModel(
        variant="tiny",
        width=WIDTH,
        depth=DEPTH,
        mlp_dim=8,
        norm_eps=1e-6,
        vocab_size=11,
        embed_dtype=dtype,
        cache_dtype=dtype,
        scan=True,
        remat_policy="nothing_saveable",
        **SIZES,
    )


def drawn(shapes):
    """Parameters of given shapes, without compiling what would make them."""
    source = np.random.default_rng(0)
    return jax.tree.map(
        lambda leaf: (source.standard_normal(leaf.shape) * 0.3).astype(np.float32), shapes
    )


def fast_parameters(model):
    init = partial(model.init_with_output, method="init")
    return drawn(jax.eval_shape(lambda key: init(key)[1], jax.random.key(0)))


def seen(queries, first):
    """[B, queries, slots]: what is written and not ahead."""
    places = np.arange(first, first + queries)[:, None]
    return np.broadcast_to(np.arange(SLOTS) <= places, (BATCH, queries, SLOTS))


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
    """A prompt and two more tokens through gemma_fast, and a training step."""
    model = fast_model()
    variables = fast_parameters(model)
    tokens = np.arange(BATCH * SLOTS).reshape(BATCH, SLOTS) % 11

    @jit
    def prefill(tokens):
        positions = jnp.arange(PROMPT)[None].repeat(BATCH, 0)
        return model.apply(variables, tokens, positions=positions, mask=seen(PROMPT, 0))[1]

    @jit
    def decode(token, position, cache):
        mask = jnp.broadcast_to(jnp.arange(SLOTS) <= position, (BATCH, 1, SLOTS))
        positions = jnp.full((BATCH, 1), position)
        options = {"positions": positions, "mask": mask, "decode": True, "kv_cache": cache}
        return model.apply(variables, token, **options)[1]

    @jit
    def train(variables, tokens):
        loss = lambda v: model.apply(v, tokens)[0].astype(jnp.float32).sum()  # noqa: E731
        return jax.grad(loss)(variables)

    path = tmp_path_factory.mktemp("fast") / "store"
    with assay.capturing(model, path) as flax_capture:
        cache = prefill(tokens[:, :PROMPT])
        for place in range(PROMPT, SLOTS):
            cache = decode(tokens[:, place : place + 1], jnp.int32(place), cache)
        train(variables, tokens)
    assert flax_capture.report().dropped == {} and flax_capture.report().duplicates == 0
    return Store.open(path), variables


def test_each_layer_once_under_grad_scan_and_remat_and_in_decode(fast):
    store, _ = fast
    calls = [(r.key.step, r.key.layer, r.phase) for r in store.manifest().records]
    phases = ["prefill", "decode", "decode", "train"]
    assert calls == [(n, layer, phase) for n, phase in enumerate(phases) for layer in range(DEPTH)]


def test_what_a_record_has(fast):
    store, _ = fast
    (prompt,) = store.find("step=0,layer=1")
    (token,) = store.find("step=2,layer=1")
    layer = {"x", "positions", "mask", "layer_out"}
    assert set(prompt.tensors) == layer | {"q", "k", "v", "out"}
    assert set(token.tensors) - set(prompt.tensors) == {"cache.idx", "cache.k", "cache.v"}
    assert token.scalars["decode"] is True and prompt.scalars["decode"] is False
    assert token.scalars["scale"] == 1.0 and token.scalars["causal"] is False
    assert token.implementation == "gemma_fast:xla" and token.key.site == "layers.attn"
    assert token.tensors["q"].shape == (BATCH, 4, 1, 4)
    assert token.tensors["k"].shape == (BATCH, 2, SLOTS, 4)
    assert token.tensors["k"].order == "BSHD"


def test_the_cache_of_a_step_is_that_of_the_step_before(fast):
    store, _ = fast
    for step in (1, 2):
        before = store.read(store.find(f"step={step - 1},layer=1")[0])
        now = store.read(store.find(f"step={step},layer=1")[0])
        assert (now["cache.idx"].bits == PROMPT + step - 1).all()
        for name in ("k", "v"):
            held = now[f"cache.{name}"].bits.swapaxes(1, 2)
            np.testing.assert_array_equal(held, before[name].bits)


@pytest.mark.parametrize("step", [0, 1, 3], ids=["prefill", "decode", "train"])
def test_gemma_fast_gives_the_captured_output_again(fast, step):
    store, variables = fast
    attention = AutoregressiveAttention(features=WIDTH, cache_dtype="bfloat16", **SIZES)
    apply = jit(attention.apply, static_argnums=5)
    for layer in range(DEPTH):
        record = store.find(f"step={step},layer={layer}")[0]
        captured = arrays(store.read(record))
        weights = jax.tree.map(lambda w: w[layer], variables["params"]["layers"]["attn"])
        cache = tuple(captured[f"cache.{n}"] for n in ("idx", "k", "v")) if step == 1 else None
        call = (captured["x"], captured["positions"], captured["mask"], cache)
        out, (_, k, v) = apply({"params": weights}, *call, record.scalars["decode"])
        np.testing.assert_array_equal(bits(out), bits(captured["layer_out"]))
        np.testing.assert_array_equal(bits(k.swapaxes(1, 2)), bits(captured["k"]))
        np.testing.assert_array_equal(bits(v.swapaxes(1, 2)), bits(captured["v"]))


@pytest.fixture(scope="module")
def experts(tmp_path_factory):
    """gemma with two experts over a prefix, then one of them with the cache of that."""
    configs = [ExpertConfig(width, DEPTH, 8, *SIZES.values()) for width in (WIDTH, 6)]
    attention = MixtureAttention(configs=configs)
    x = [
        normal((BATCH, length, c.width), seed=n)
        for n, (length, c) in enumerate(zip((2, 1), configs))
    ]
    positions = jnp.arange(3)[None].repeat(BATCH, 0)
    mask = jnp.tril(jnp.ones((3, 3), dtype=bool))[None, None].repeat(BATCH, 0)
    shapes = jax.eval_shape(attention.init, jax.random.key(0), x, positions, mask, None)
    variables = drawn(shapes)
    apply = jit(attention.apply)
    path = tmp_path_factory.mktemp("experts") / "store"
    with assay.capturing(attention, path):
        _, cache = apply(variables, x, positions, mask, None)
        token = [None, normal((BATCH, 1, 6), seed=5)]
        further = jnp.ones((BATCH, 1, 1, 4), dtype=bool)
        apply(variables, token, positions[:, :1] + 3, further, cache)
    return Store.open(path), attention, variables


def test_gemma_gives_the_captured_outputs_again(experts):
    store, attention, variables = experts
    prefix, token = (store.find(f"step={step}")[0] for step in (0, 1))
    assert {"x.0", "x.1", "layer_out.0", "layer_out.1"} <= set(prefix.tensors)
    assert "x.0" not in token.tensors and token.tensors["cache.k"].shape == (BATCH, 3, 2, 4)
    assert (prefix.phase, token.phase) == ("prefill", "decode")
    assert prefix.key.site == "MixtureAttention" and prefix.implementation == "gemma:xla"
    for record in (prefix, token):
        captured = arrays(store.read(record))
        cache = (captured["cache.k"], captured["cache.v"]) if "cache.k" in captured else None
        x = [captured.get("x.0"), captured.get("x.1")]
        call = (variables, x, captured["positions"], captured["mask"], cache)
        outs, _ = jit(attention.apply)(*call)
        for expert, out in enumerate(outs):
            if out is not None:
                np.testing.assert_array_equal(bits(out), bits(captured[f"layer_out.{expert}"]))


def normal(shape, *, seed):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.bfloat16)


def arrays(tensors):
    """Tensors of a store as JAX has them."""
    named = {name: (tensor.bits, jnp.dtype(tensor.dtype)) for name, tensor in tensors.items()}
    return {name: jnp.asarray(array.view(dtype)) for name, (array, dtype) in named.items()}


def bits(x):
    array = np.asarray(x)
    return array.view(np.uint16) if array.dtype == jnp.bfloat16 else array
