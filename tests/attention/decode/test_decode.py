"""Every file of attention/decode, on a CPU: against float64 on what the cache gives back.

The budget is that of the check: twice the error of plain code in the queries' dtype, or the
rounding that none can avoid (attention/budget.py).
"""

from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")
if find_spec("triton") is None:  # not imported: what interprets must be said before
    pytest.skip("needs triton", allow_module_level=True)

from assay import plugins
from assay.attention.decode._split_kv import Scratch
from assay.errors import BadInput
from assay.kv import contract
from benchmarks.decode_errors import errors

FILES = plugins.listing("decode")
LATENT = ("mla_latent", "splice")
KERNELS = [name for name, file in FILES.items() if "triton" in file.requires]
QUANTISED = [name for name in KERNELS if name not in LATENT]
PEERS = [n for n in FILES if n not in KERNELS and n not in ("sdpa_cudnn", "flashinfer")]  # on a GPU
SCALE = 0.2


def test_the_folder_has_kernels_for_what_caches_keep() -> None:
    assert {"dense", "k16v8", "k8v8", "int8", "int4", *LATENT} <= set(KERNELS)
    assert {FILES[name].literals["LAYOUT"] for name in KERNELS} <= set(plugins.listing("layouts"))


def decoder(name: str):
    return plugins.load(FILES[name]).decode


def cache(name: str, *, batch=2, heads=2, keys=150, dim=64, dtype=torch.float32, size=1.0):
    """Streams of a layout and the keys and values that it gives back."""
    torch.manual_seed(keys * dim + heads)
    layout = contract.load(name if name in plugins.listing("layouts") else "dense")
    values = {n: size * torch.randn(batch, heads, keys, dim, dtype=dtype) for n in "kv"}
    streams = layout.encode(values, ())
    whole = layout.decode(streams, ())
    return streams, whole["k"].double(), whole["v"].double()


def hold(out, lse, q, k, v, lengths, scale=SCALE) -> None:
    """Assert that an output is within the budget of the check."""
    assert out.dtype == q.dtype
    measured = errors(
        out.double().numpy(),
        None if lse is None else lse.double().numpy(),
        q=q.double().numpy(),
        k=k.numpy(),
        v=v.numpy(),
        lengths=lengths.numpy(),
        scale=scale,
        dtype=str(q.dtype).removeprefix("torch."),
    )
    assert max(measured.values()) <= 1, f"budgets: {measured}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
@pytest.mark.parametrize("name", QUANTISED)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "new", "keys", "dim", "splits"),
    [
        (4, 2, 1, 113, 64, 3),
        (6, 1, 3, 63, 32, 1),
        pytest.param(2, 2, 16, 40, 64, 2, marks=pytest.mark.slow),
        pytest.param(8, 1, 1, 1, 128, 1, marks=pytest.mark.slow),
        pytest.param(4, 1, 2, 1023, 128, 3, marks=pytest.mark.slow),
    ],
)
def test_equals_float64(name, dtype, heads, kv_heads, new, keys, dim, splits) -> None:
    streams, k, v = cache(name, heads=kv_heads, keys=keys, dim=dim, dtype=dtype)
    q = torch.randn(2, heads, new, dim, dtype=dtype)
    out, lse = decoder(name)(q, streams, scale=SCALE, lse=True, splits=splits)
    hold(out, lse, q, k, v, torch.full((2,), keys))


@pytest.mark.parametrize("name", PEERS)
def test_peers_equal_float64(name) -> None:
    streams, k, v = cache("int4" if name == "dequantised" else "dense", keys=113)
    q = torch.randn(2, 4, 2, 64)
    lengths = torch.tensor([113, 7], dtype=torch.int32)
    hold(decoder(name)(q, streams, scale=SCALE, lengths=lengths), None, q, k, v, lengths)


@pytest.mark.parametrize("name", QUANTISED)
def test_lengths_around_tiles_and_none_at_all(name) -> None:
    """Behind a length lies NaN, which no output may have seen; and a loud neighbour."""
    lengths = torch.tensor([0, 1, 64, 65], dtype=torch.int32)
    streams, k, v = cache(name, batch=4, heads=1, keys=65)
    for tensor in streams.values():
        bits = tensor.view(torch.uint8)
        for sequence, length in enumerate(lengths):
            bits[sequence, :, length:] = 0x7F  # NaN, or the loudest number of the dtype
    q = torch.randn(4, 2, 1, 64)
    out, lse = decoder(name)(q, streams, scale=SCALE, lengths=lengths, lse=True, splits=2)
    hold(out, lse, q, k, v, lengths)


@pytest.mark.parametrize("page", [16, pytest.param(24, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", QUANTISED)
def test_shuffled_pages(name, page) -> None:
    """Pages lie anywhere, and what no sequence has written is NaN."""
    lengths = torch.tensor([70, 0, 96], dtype=torch.int32)
    streams, k, v = cache(name, batch=3, keys=96)
    count = 96 // page
    tables = torch.randperm(3 * count)[: 3 * count].reshape(3, count).to(torch.int32)
    pools = {}
    for stream, tensor in streams.items():
        heads, width = tensor.shape[1], tensor.shape[-1]
        bits = tensor.view(torch.uint8).reshape(3, heads, 96, -1)
        pool = torch.full((3 * count, heads, page, bits.shape[-1]), 0x7F, dtype=torch.uint8)
        for sequence, length in enumerate(lengths):
            for token in range(length):
                pool[tables[sequence, token // page], :, token % page] = bits[sequence, :, token]
        pools[stream] = pool.view(tensor.dtype).reshape(3 * count, heads, page, width)
    q = torch.randn(3, 4, 2, 64)
    out, lse = decoder(name)(
        q, pools, scale=SCALE, lengths=lengths, pages=tables, lse=True, splits=2
    )
    hold(out, lse, q, k, v, lengths)


@pytest.mark.parametrize("size", [1e-30, pytest.param(1e4, marks=pytest.mark.slow), 1e30])
@pytest.mark.parametrize("name", [n for n in QUANTISED if n != "dense"])
def test_scales_at_their_limits(name, size) -> None:
    """Numbers far from 1, of keys and of values: scales take them on, in products and in sums."""
    streams, k, v = cache(name, keys=50, size=size)
    scale = 0.05 / size
    q = torch.randn(2, 4, 1, 64)
    out = decoder(name)(q, streams, scale=scale, splits=2)
    hold(out, None, q, k, v, torch.full((2,), 50), scale)


@pytest.mark.parametrize("name", [n for n in QUANTISED if n.endswith(("v8", "int4", "int8"))])
def test_scales_of_values_far_apart(name) -> None:
    """The key with all the weight has values 2^40 below those of a key that has next to none."""
    layout = contract.load(name)
    k, v = torch.zeros(1, 1, 40, 64), torch.randn(1, 1, 40, 64)
    k[0, 0, 7] = 40.0
    v[0, 0, 30:] *= 2.0**40
    streams = layout.encode({"k": k, "v": v}, ())
    whole = layout.decode(streams, ())
    q = torch.ones(1, 2, 1, 64)
    out = decoder(name)(q, streams, scale=0.25)
    hold(out, None, q, whole["k"].double(), whole["v"].double(), torch.tensor([40]), 0.25)


@pytest.mark.parametrize("name", QUANTISED)
def test_extreme_logits_and_ties(name) -> None:
    streams, k, v = cache(name, keys=64, size=30.0)
    q = 30 * torch.randn(2, 4, 1, 64)
    q[1] = 0  # all keys alike
    out, lse = decoder(name)(q, streams, scale=1.0, lse=True, splits=2)
    hold(out, lse, q, k, v, torch.full((2,), 64), 1.0)


@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("where", ["k", "v"])
@pytest.mark.parametrize("name", QUANTISED)
def test_nan_that_is_seen_is_not_hidden(name, where, splits) -> None:
    layout = contract.load(name)
    values = {n: torch.randn(1, 2, 20, 64) for n in "kv"}
    values[where][0, 1, 3, 5] = float("nan")
    streams = layout.encode(values, ())
    out = decoder(name)(torch.randn(1, 2, 1, 64), streams, scale=SCALE, splits=splits)
    assert out[0, 0].isfinite().all() and out[0, 1].isnan().any()


@pytest.mark.parametrize("name", QUANTISED)
def test_strides_of_a_cache_with_room(name) -> None:
    """A view of the filled part of longer buffers, and queries out of a projection."""
    streams, k, v = cache(name, keys=80)
    views = {n: tensor.narrow(2, 0, 50) for n, tensor in streams.items()}
    q = torch.randn(2, 1, 4, 64).transpose(1, 2)
    out = decoder(name)(q, views, scale=SCALE)
    hold(out, None, q, k[:, :, :50], v[:, :, :50], torch.full((2,), 50))


@pytest.mark.parametrize("name", ["dense", "k8v8"])
def test_parts_are_merged_alike_and_scratch_is_left_clean(name) -> None:
    streams, _, _ = cache(name, keys=150)
    q = torch.randn(2, 4, 1, 64)
    scratch = Scratch.make(blocks=4, splits=5, rows=8, width=64, device="cpu")
    scratch.partial.fill_(float("nan"))
    outs = [decoder(name)(q, streams, scale=SCALE, splits=5, scratch=scratch) for _ in range(2)]
    assert torch.equal(*outs) and not scratch.arrivals.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
@pytest.mark.parametrize(("width", "rope"), [(64, 0), (48, 16), (128, 32)])
@pytest.mark.parametrize("name", LATENT)
def test_latents_equal_float64(name, width, rope, dtype) -> None:
    torch.manual_seed(width)
    rows = torch.randn(3, 70, width + rope, dtype=dtype)
    q = torch.randn(3, 12, 2, width + rope, dtype=dtype)
    lengths = torch.tensor([70, 0, 33], dtype=torch.int32)
    rows[2, 33:] = float("nan")
    out, lse = decoder(name)(
        q, {"latent": rows}, scale=SCALE, value_width=width, lengths=lengths, lse=True, splits=3
    )
    known = rows.nan_to_num(0.0).double()[:, None]
    hold(out, lse, q, known, known[..., :width], lengths)


def test_latents_in_pages() -> None:
    torch.manual_seed(0)
    rows, tables = torch.randn(2, 64, 64), torch.randperm(8).reshape(2, 4).to(torch.int32)
    pool = torch.full((8, 16, 64), float("nan"))
    for sequence in range(2):
        for place, page in enumerate(tables[sequence]):
            pool[page] = rows[sequence, 16 * place : 16 * place + 16]
    lengths, q = torch.tensor([64, 20], dtype=torch.int32), torch.randn(2, 12, 1, 64)
    out = decoder("mla_latent")(
        q, {"latent": pool}, scale=SCALE, value_width=64, lengths=lengths, pages=tables
    )
    hold(out, None, q, rows.double()[:, None], rows.double()[:, None], lengths)


def test_a_length_beyond_the_cache_reads_no_neighbour() -> None:
    streams, k, v = cache("k16v8", keys=40)
    q, full = torch.randn(2, 4, 1, 64), torch.full((2,), 40, dtype=torch.int32)
    given = torch.tensor([1000, 40], dtype=torch.int32)
    out = decoder("k16v8")(q, streams, scale=SCALE, lengths=given)
    hold(out, None, q, k, v, full)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("k8v8", lambda s: s.pop("k_scale"), "no stream k_scale"),
        ("dense", lambda s: s.pop("v"), "no stream v"),
        ("int4", lambda s: s.update(v_scale=s["v_scale"][..., :1]), "v_scale is"),
        ("k16v8", lambda s: s.update(v=s["v"].float()), "v is torch.float32"),
        ("dense", lambda s: s.update(k=s["k"][:1]), "k has 1 sequences"),
    ],
)
def test_streams_that_do_not_fit_are_refused_in_words(name, change, words) -> None:
    streams, _, _ = cache(name, keys=20)
    change(streams)
    with pytest.raises(BadInput, match=words):
        decoder(name)(torch.randn(2, 4, 1, 64), streams, scale=SCALE)


def test_pages_without_lengths_and_bfloat16_on_a_cpu_are_refused() -> None:
    streams, _, _ = cache("dense", keys=16)
    q, tables = torch.randn(2, 4, 1, 64), torch.zeros(2, 1, dtype=torch.int32)
    with pytest.raises(BadInput, match="without lengths"):
        decoder("dense")(q, streams, scale=SCALE, pages=tables)
    with pytest.raises(BadInput, match="interpreter"):
        decoder("dense")(q.bfloat16(), streams, scale=SCALE)
    with pytest.raises(BadInput, match="no stream latent"):
        decoder("mla_latent")(q, streams, scale=SCALE, value_width=64)
