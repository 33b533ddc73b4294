"""The JAX implementations against the float64 reference, and Pallas' lowering for a GPU."""

from dataclasses import replace

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp

from assay import host
from assay.attention import contract
from assay.attention.sequence import jax_cudnn, jax_pallas
from assay.captures.inputs import make
from assay.correctness import judge
from assay.devices import Device
from assay.subjects.sequence import SequenceSubject, bind_loaded
from assay.workloads.spec import WorkloadSpec

HERE = host.inspect()
NAMES = ("jax_xla", "jax_pallas", "jax_cudnn")


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    """A third of the time that XLA takes to compile for a CPU."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module", autouse=True)
def cudnn_without_a_gpu():
    """XLA's own attention in cuDNN's place: it takes the same arguments and means the same."""
    real = jax_cudnn.dot_product_attention

    def stand_in(*arrays, implementation, **settings):
        assert implementation == "cudnn"
        assert all(array.shape[1] % 2 == 0 for array in arrays), "its backward takes even lengths"
        wide = (array.astype(jnp.float32) for array in arrays)  # XLA's has no float16 on a CPU
        return real(*wide, implementation="xla", **settings).astype(arrays[0].dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax_cudnn, "dot_product_attention", stand_in)
        yield
    jax_cudnn._attention.clear_cache()  # or a GPU would be given the stand-in


def spec(lengths=(63, 63), heads=(2, 1), **given) -> WorkloadSpec:
    usual = {
        "batch": 2, "heads": heads[0], "kv_heads": heads[1], "query_length": lengths[0],
        "key_length": lengths[1], "head_dim": 32, "dtype": "float32", "causal": True, "seed": 3,
    }  # fmt: skip
    return WorkloadSpec(**{**usual, **given})


def call(name: str, wanted: WorkloadSpec, **replaced) -> SequenceSubject:
    implementation = contract.load(name)
    if name == "jax_cudnn":  # which would rightly refuse a CPU
        implementation = replace(implementation, supports=lambda spec, host: None)
    workload = replace(make(wanted), **replaced)
    return bind_loaded(implementation, workload, host=HERE, device="cpu")


def assert_right(bound: SequenceSubject, *, lse: bool = False) -> None:
    """Output and gradients are within their budgets; the LSE too, where it is given."""
    comparisons = judge.compare_backward(bound)
    if lse and "lse" in bound.implementation.accepts:
        comparisons += judge.compare_forward(bound)
    problems = [c.problem for c in comparisons if not c.holds]
    assert not problems, f"{bound.name} on {bound.workload.spec.name}: {problems}"


def each(*cases: WorkloadSpec, slow_in_pallas: tuple[WorkloadSpec, ...] = ()) -> list:
    """Every implementation with every case; interpreted kernels take seconds to compile."""
    return [
        pytest.param(
            name,
            case,
            id=f"{name}-{case.name}",
            marks=pytest.mark.slow if name == "jax_pallas" and case in slow_in_pallas else (),
        )
        for name in NAMES
        for case in (*cases, *slow_in_pallas)
    ]


SHAPES = each(
    spec((63, 63)),
    spec((113, 33), dtype="bfloat16", head_dim=40, heads=(2, 2)),
    spec((17, 150), dtype="float16", head_dim=24, heads=(3, 1)),
    slow_in_pallas=(
        spec((1, 1), dtype="bfloat16"),
        spec((33, 65), causal=False, head_dim=80, scale_percent=37),
    ),
)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "wanted"), SHAPES)
def test_shapes_and_dtypes(name, wanted):
    assert_right(call(name, wanted))


@pytest.mark.sampled
@pytest.mark.parametrize("values", ["large", "huge", "onehot", "ties"])
@pytest.mark.parametrize("name", NAMES)
def test_values(name, values):
    assert_right(call(name, spec((63, 63), values=values)), lse=True)


OPTIONS = each(
    spec((65, 33), window=9, causal=False, padded=True, dtype="float16"),
    spec((65, 65), masked=True, heads=(2, 2), dtype="bfloat16"),
    slow_in_pallas=(spec((33, 65), window=9), spec((33, 66), padded=True, causal=False)),
)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "wanted"), OPTIONS)
def test_options(name, wanted):
    replaced = {"lengths": np.array([0, 29], np.int32)} if wanted.padded else {}
    assert_right(call(name, wanted, **replaced), lse=wanted.padded)


@pytest.mark.parametrize("wanted", [spec((33, 33), window=5), spec((34, 34), padded=True)])
def test_what_cudnn_is_told_itself(wanted):
    """A window and lengths need no mask where there are as many queries as keys."""
    assert_right(call("jax_cudnn", wanted))


def test_packed_sequences():
    starts = (np.array([0, 9, 9, 40], np.int32), np.array([0, 0, 31, 50], np.int32))
    wanted = spec((40, 50), batch=1, packed=3)
    assert_right(call("jax_xla", wanted, cu_seqlens=starts))
    assert_right(call("jax_xla", replace(wanted, causal=False, window=7), cu_seqlens=starts))


@pytest.mark.parametrize("name", NAMES)
def test_a_mask_of_its_own_for_each_head(name):
    """Also with a row that sees nothing, which must give zeros and pass no gradient on."""
    mask = np.random.default_rng(5).random((1, 4, 33, 33)) < 0.6
    mask[:, 1, 7] = False
    wanted = spec((33, 33), heads=(4, 2), masked=True)
    bound = call(name, wanted, mask=mask)
    out, (dq, _, _) = bound.gradients()
    assert (bound.numpy(out)[:, 1, 7] == 0).all() and (bound.numpy(dq)[:, 1, 7] == 0).all()
    assert_right(bound)


@pytest.mark.parametrize("name", NAMES)
def test_one_gradient_alone_and_repeats_are_bit_equal(name):
    bound = call(name, spec((63, 63)))
    bits = bound.framework.bits
    _, all_three = bound.gradients()
    _, (none, dk, absent) = bound.gradients(wanted=(False, True, False))
    assert none is None and absent is None
    assert np.array_equal(bound.numpy(dk), bound.numpy(all_three[1]))
    assert bits(bound()) == bits(bound())


@pytest.mark.parametrize("name", NAMES)
def test_the_future_does_not_matter(name):
    wanted = spec((63, 63))
    before, workload = call(name, wanted), make(wanted)
    later = workload.v.copy()
    later[:, :, -8:] = -7.0  # what the last eight queries alone may see
    after = call(name, wanted, v=later)
    first, second = before.numpy(before()), after.numpy(after())
    assert np.array_equal(first[:, :, :-8], second[:, :, :-8])
    assert (first[:, :, -8:] != second[:, :, -8:]).any()


@pytest.mark.slow
def test_the_lse_has_a_gradient_too():
    """dS gains P times the LSE's gradient; XLA derives the same from the definition."""
    bound = call("jax_pallas", spec((33, 65)))
    digests = {}
    for name in ("jax_xla", "jax_pallas"):
        attention = contract.load(name).attention

        def both(q, k, v, attention=attention):
            out, lse = attention(q, k, v, causal=True, scale=0.2, lse=True)
            return (out * out).sum() + (lse * jnp.arange(33.0)).sum()

        digests[name] = jax.jit(jax.grad(both, argnums=(0, 1, 2)))(*bound.inputs)
    for ours, plain in zip(digests["jax_pallas"], digests["jax_xla"], strict=True):
        assert np.allclose(ours, plain, rtol=1e-4, atol=1e-4)


LOWERED = [
    ("float32", 40, {"causal": True}),
    ("float16", 128, {"causal": True, "lengths": (2,), "window": 7}),
    ("bfloat16", 256, {"causal": False, "mask": (2, 1, 113, 300)}),
    ("float32", 256, {"causal": True, "mask": (1, 6, 113, 300)}),
]


@pytest.mark.parametrize(("dtype", "head_dim", "options"), LOWERED)
def test_pallas_lowers_for_a_gpu(dtype, head_dim, options):
    """Three Triton kernels come out, forward, dq and dkv, on a machine without a GPU."""
    q, k = (jax.ShapeDtypeStruct(s, dtype) for s in ((2, 6, 113, head_dim), (2, 2, 300, head_dim)))
    kinds = {"lengths": jnp.int32, "mask": jnp.bool_}
    arrays = {n: jax.ShapeDtypeStruct(options[n], kinds[n]) for n in kinds if n in options}
    given = {name: value for name, value in options.items() if name not in kinds}

    def loss(q, k, v, arrays):
        return jax_pallas.attention(q, k, v, scale=0.3, **given, **arrays).sum()

    gpu = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="gpu")
    mesh = jax.sharding.AbstractMesh((1,), ("x",), abstract_device=gpu)
    with jax.sharding.use_abstract_mesh(mesh):
        traced = jax.jit(jax.grad(loss, argnums=(0, 1, 2))).trace(q, k, k, arrays)
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("__gpu$xla.gpu.triton") == 3
    for kernel in ("forward", "dq", "dkv"):
        assert f"assay_flash_{kernel}" in text


def test_what_is_refused():
    gpu = Device(kind="cuda", index=0, name="NVIDIA H200", memory_bytes=None)
    with_gpu = replace(HERE, devices=(gpu,))
    without = replace(HERE, devices=HERE.devices[:1])
    cudnn, pallas = contract.load("jax_cudnn"), contract.load("jax_pallas")
    assert "NVIDIA" in cudnn.supports(spec(dtype="float16"), without)
    assert "float32" in cudnn.supports(spec(), with_gpu)
    assert "256" in pallas.supports(spec(head_dim=257), without)
    assert pallas.supports(spec(), without) is None
    with pytest.raises(ValueError, match="head_dim 300"):
        jax_pallas.attention(*[jnp.zeros((1, 1, 1, 300))] * 3, causal=True, scale=1.0)


LONG = [
    spec((257, 513), dtype="float16", head_dim=64, heads=(4, 2)),
    spec((513, 129), dtype="bfloat16", head_dim=192),
    spec((300, 300), head_dim=96, window=40, causal=False),
    spec((200, 300), dtype="bfloat16", head_dim=256, masked=True),
    spec((127, 255), batch=5, heads=(8, 1), padded=True, scale_percent=250),
]


@pytest.mark.slow
@pytest.mark.parametrize("wanted", LONG, ids=lambda wanted: wanted.name)
@pytest.mark.parametrize("name", NAMES)
def test_many_tiles(name, wanted):
    assert_right(call(name, wanted), lse=True)


@pytest.fixture
def gpu(monkeypatch):
    """The first GPU, with cuDNN itself and all optimisations."""
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU here")
    jax.config.update("jax_disable_most_optimizations", False)
    monkeypatch.setattr(jax_cudnn, "dot_product_attention", jax.nn.dot_product_attention)
    jax_cudnn._attention.clear_cache()
    yield "cuda:0"
    jax_cudnn._attention.clear_cache()
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.mark.parametrize(("name", "wanted"), [case.values for case in (*SHAPES, *OPTIONS)])
def test_on_a_gpu(name, wanted, gpu):
    dtypes = ["bfloat16", "float16"] if name == "jax_cudnn" else [wanted.dtype]
    for dtype in dtypes:
        workload = make(replace(wanted, dtype=dtype))
        assert_right(bind_loaded(contract.load(name), workload, host=HERE, device=gpu), lse=True)
