"""FlexAttention over a cache, against float64: here as on a GPU, but for the generated code.

The last tests need a GPU.
"""

import pytest

torch = pytest.importorskip("torch")

from whole_caches import DTYPES, LENGTHS, SCALE, counted, forget, hold, hold_on_gpu, made, on_gpu

from assay.attention.decode import flex
from assay.errors import BadInput


@DTYPES
@pytest.mark.parametrize("new", [1, 2])
def test_flex_with_lengths_and_nan_behind_them(new, dtype) -> None:
    q, streams = made(new=new, dtype=dtype)
    out = flex.decode(q, forget(streams, LENGTHS), scale=SCALE, lengths=counted(LENGTHS))
    hold(out, q, streams, LENGTHS)
    assert not out[0].any()  # no key
    assert new == 1 or not out[1, :, 0].any()  # the first of two new tokens sees none of one key


@DTYPES
@pytest.mark.parametrize(
    ("heads", "kv_heads", "new", "keys", "dim"),
    [
        (8, 1, 1, 1, 64),
        (4, 4, 1, 63, 80),
        (6, 2, 3, 113, 32),
        (2, 2, 16, 300, 64),
        (4, 1, 5, 3, 16),
    ],
)
def test_flex_over_whole_sequences(heads, kv_heads, new, keys, dim, dtype) -> None:
    sizes = {"heads": heads, "kv_heads": kv_heads, "new": new, "keys": keys, "dim": dim}
    q, streams = made(batch=2, dtype=dtype, **sizes)
    hold(flex.decode(q, streams, scale=SCALE), q, streams)


def test_flex_with_lengths_in_other_blocks_and_beyond_the_cache() -> None:
    lengths = [127, 128, 129, 300]
    q, streams = made(keys=260)
    out = flex.decode(q, forget(streams, lengths), scale=SCALE, lengths=counted(lengths))
    hold(out, q, streams, [127, 128, 129, 260])


def test_flex_of_a_cache_with_room() -> None:
    """A view of the filled part of longer buffers, and queries out of a projection."""
    _, streams = made(keys=80)
    views = {name: tensor.narrow(2, 0, 50) for name, tensor in streams.items()}
    q = torch.randn(4, 1, 4, 64).transpose(1, 2)
    hold(flex.decode(q, views, scale=SCALE), q, views)


@pytest.mark.parametrize("where", ["k", "v"])
def test_flex_does_not_hide_nan_that_is_seen(where) -> None:
    q, streams = made()
    streams[where][3, 1, 3, 5] = float("nan")
    out = flex.decode(q, streams, scale=SCALE, lengths=counted(LENGTHS))
    assert out[:3].isfinite().all() and out[3, :2].isfinite().all() and out[3, 2:].isnan().any()


@pytest.mark.slow
def test_flex_is_compiled_once_for_a_shape_and_beyond_the_limit_of_torch() -> None:
    """torch compiles a function for eight shapes at most, and a cache grows with every step."""
    from torch._dynamo.utils import counters

    flex._compiled.cache_clear()
    for keys in range(30, 40):
        q, streams = made(keys=keys)
        for lengths in (LENGTHS[:2] * 2, [5, 6, 7, 8]):
            before = counters["stats"]["unique_graphs"]
            out = flex.decode(q, streams, scale=SCALE, lengths=counted(lengths))
            hold(out, q, streams, lengths)
            graphs = counters["stats"]["unique_graphs"] - before
            assert graphs == (lengths != [5, 6, 7, 8])
    assert flex._compiled.cache_info().misses == 10


def test_flex_refuses_in_words() -> None:
    q, streams = made()
    with pytest.raises(BadInput, match="no pages"):
        flex.decode(q, streams, scale=SCALE, lengths=counted(LENGTHS), pages=counted([[0]]))
    assert "below 16" in flex.supports(head_dim=8, dtype="bfloat16", device="cuda")
    assert flex.supports(head_dim=8, dtype="bfloat16", device="cpu") is None


def test_flex_takes_the_decoding_kernel_where_it_can() -> None:
    assert flex._kernel_options(4, 1, torch.bfloat16) == {}
    assert flex._kernel_options(4, 1, torch.float32) == {"BLOCK_N": 32}
    for group, new in ((3, 1), (8, 16)):
        options = flex._kernel_options(group, new, torch.bfloat16)
        assert options == {"FORCE_USE_FLEX_ATTENTION": True}


@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
@pytest.mark.parametrize("keys", [113, 1024])
def test_on_a_gpu(keys, kv_heads) -> None:
    hold_on_gpu("flex", keys, kv_heads)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("heads", "new", "dim"), [(8, 4, 64), (6, 3, 128), (16, 16, 256)])
def test_flex_with_new_tokens_on_a_gpu(heads, new, dim, dtype) -> None:
    decode = on_gpu("flex")
    q, streams = made(heads=heads, new=new, keys=300, dim=dim, dtype=dtype)
    given = {n: tensor.cuda() for n, tensor in forget(streams, LENGTHS).items()}
    out = decode(q.cuda(), given, scale=SCALE, lengths=counted(LENGTHS, "cuda"))
    hold(out, q, streams, LENGTHS)
