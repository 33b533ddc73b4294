"""Calls that cannot work: each is refused in words, and as the error that callers may expect."""

from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import jax.numpy as jnp
from gemma_cases import (
    BATCH,
    CAPACITY,
    HEAD_DIM,
    LENGTH,
    PREFIX,
    SUFFIX,
    WIDTHS,
    attention,
    causal,
    configs,
    experts,
    fast_attention,
    fast_model,
    model,
    normal,
    positions,
    some_mask,
)

from assay.models.gemma.attention import MixtureAttention
from assay.models.gemma.config import stock_config, stock_keywords
from assay.models.gemma.model import MixtureModel

BOTH = (ValueError, AssertionError)


def refuses(message, call, *arguments, **named):
    """Traced, not run, and an error of both kinds."""
    for kind in BOTH:
        with pytest.raises(kind, match=message):
            jax.eval_shape(partial(call, **named), *arguments)


def attend(xs=None, at=None, mask=None, cache=None, module=None):
    case = attention()
    call = (module or case.module).apply
    arguments = (
        experts() if xs is None else xs,
        positions(0, LENGTH) if at is None else at,
        some_mask(LENGTH, LENGTH) if mask is None else mask,
        cache,
    )
    return lambda message: refuses(message, call, case.parameters, *arguments)


def test_attention_refuses():
    first, second = experts()
    attend(mask=some_mask(LENGTH, LENGTH + 1))(r"\(2, 1, 8, 9\), wanted \(2, 1, 8, 8\)")
    attend(mask=some_mask(LENGTH, LENGTH)[:, 0])(r"\(2, 8, 8\), wanted \(2, 1, 8, 8\)")
    attend(mask=some_mask(LENGTH, LENGTH)[:1])(r"\(1, 1, 8, 8\), wanted \(2, 1, 8, 8\)")
    cache = tuple(normal((BATCH, PREFIX, 2, HEAD_DIM), seed=seed) for seed in (1, 2))
    attend(cache=cache)(r"\(2, 1, 8, 8\), wanted \(2, 1, 8, 13\)")
    attend(at=positions(0, LENGTH - 1))(r"\(2, 7\), wanted \[2 or 1, 8\]")
    attend(xs=[first])("1 inputs for 2 experts")
    attend(xs=[None, None])("at least one")
    attend(xs=[first, second[..., :-1]])(r"\(2, 3, 19\), wanted \[batch, length, 20\]")
    attend(xs=[first.astype(jnp.bfloat16), second])("bfloat16, float32; give all of them the same")


@pytest.mark.parametrize("name", ["head_dim", "num_heads", "num_kv_heads"])
def test_experts_must_have_the_same_heads(name):
    first, second = configs()
    setattr(second, name, 1)
    attend(module=MixtureAttention([first, second]))(f"the experts have {name} .*, 1; they attend")


def test_heads_must_form_groups_and_pairs():
    for changed, message in (({"num_kv_heads": 3}, "4 query heads cannot share 3"),
                             ({"head_dim": 15}, "head_dim 15 is odd")):  # fmt: skip
        module = MixtureAttention(configs(**changed))
        rest = (experts(), positions(0, LENGTH), some_mask(LENGTH, LENGTH), None)
        refuses(message, module.init, jax.random.key(0), *rest)


def fast(length=PREFIX, *, at=None, mask=None, cache=None, **made):
    case = fast_attention(**made)
    x = normal((BATCH, length, WIDTHS[0]), seed=1)
    arguments = (x, positions(0, length) if at is None else at, mask, cache)
    return lambda message: refuses(
        message, case.module.apply, case.parameters, *arguments, decode=True
    )


def held(dtype="float32", slots=CAPACITY):
    shape = (BATCH, slots, 2, HEAD_DIM)
    return np.full(BATCH, PREFIX, np.int32), jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)


def test_fast_attention_refuses():
    fast(mask=causal(PREFIX, CAPACITY)[:, 0])(r"\(2, 5, 9\), wanted \(2, 1, 5, 9\)")
    fast(mask=causal(PREFIX, PREFIX - 1))("cache of 4 slots for 5 tokens; pad")
    fast(2, mask=causal(2, CAPACITY), cache=held())("2 tokens for a cache that takes one")
    fast(1, mask=causal(1, PREFIX), cache=held())(r"\(2, 1, 1, 5\), wanted \(2, 1, 1, 9\)")
    fast(1, mask=causal(1, CAPACITY), cache=held("bfloat16"))("holds bfloat16.*given float32")
    fast(1, at=positions(0, 2), mask=causal(1, CAPACITY), cache=held())(r"\(2, 2\), wanted")


def test_a_full_cache_is_refused_by_the_module_and_the_model():
    """Writing on moved the write back to the last slot and went unnoticed."""
    taken = (np.full(BATCH, CAPACITY, np.int32), *held()[1:])
    case, x = fast_attention(), normal((BATCH, 1, WIDTHS[0]), seed=1)
    message = "9 slots and all are taken .next index 9.; decode fewer.*pad the mask"
    for kind in BOTH:
        with pytest.raises(kind, match=message):
            case.module.apply(case.parameters, x, positions(9, 1), causal(1, 9), taken, True)
    layers = tuple(np.stack([part, part]) for part in taken)
    case = fast_model()
    arguments = {"positions": positions(9, 1), "mask": causal(1, 9), "kv_cache": layers}
    with pytest.raises(ValueError, match=message):
        case.module.apply(case.parameters, embedded_prefix=x, decode=True, **arguments)


def test_the_model_refuses():
    case = model()
    first, second = experts()
    at, mask = positions(0, LENGTH), some_mask(LENGTH, LENGTH)[:, 0]

    def apply(message, *arguments):
        refuses(message, case.module.apply, case.parameters, *arguments)

    apply("1 inputs for 2 experts", [first], at, mask)
    apply("3 conditions for 2 experts", [first, second], at, mask, [None] * 3)
    apply(r"wanted \(2, 1, 8, 8\)", [first, second], at, mask[:, :, 1:])
    uneven = configs()
    uneven[1].depth = 3
    module = MixtureModel(uneven, "float32")
    refuses("depth 2, 3; their layers run together", module.apply, {}, [first, second], at, mask)


def test_the_autoregressive_model_refuses():
    case, tokens = fast_model(), np.zeros((BATCH, SUFFIX), np.int32)

    def apply(message, module=case.module, **arguments):
        refuses(message, module.apply, case.parameters, **arguments)

    apply("neither tokens nor embedded_prefix")
    for arguments in ({}, {"positions": positions(0, SUFFIX)}, {"mask": causal(SUFFIX, SUFFIX)}):
        apply("without positions and mask", tokens=tokens, decode=True, **arguments)
    apply(r"\(2, 2\), wanted", tokens=tokens, positions=positions(0, 2))
    apply(r"\(2, 1, 3, 2\), wanted \(2, 1, 3, 3\)", tokens=tokens, mask=causal(SUFFIX, 2))
    unknown = case.module.clone(remat_policy="some")
    apply("no remat_policy 'some'; give 'none'", unknown, tokens=tokens)


@pytest.mark.parametrize("cache_dtype", [None, "float32"])
def test_a_cache_that_would_lift_the_residual_stream_is_refused(cache_dtype):
    case, tokens = fast_model(), np.zeros((BATCH, SUFFIX), np.int32)
    module = case.module.clone(embed_dtype="bfloat16", cache_dtype=cache_dtype)
    refuses("set cache_dtype to 'bfloat16'", module.apply, case.parameters, tokens)


def test_an_unknown_variant_is_refused():
    with pytest.raises(ValueError, match="no variant 'gemma_9b'; there are dummy, gemma_300m"):
        stock_config("gemma_9b")
    with pytest.raises(ValueError, match="no variant 'dummy'; there are gemma_2b, gemma_2b_lora"):
        stock_keywords("dummy")
