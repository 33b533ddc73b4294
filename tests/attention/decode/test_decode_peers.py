"""FlexAttention and FlashInfer as peers of the decode kernels, against float64.

FlexAttention runs here as on a GPU, but for the code that is generated. FlashInfer does not: a
stand-in reads pages as its documentation describes them, so that tables, views and plans are
tested without it; the last tests need a GPU.
"""

import sys
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

from assay import plugins
from assay.attention.decode import flashinfer, flex
from assay.correctness.decode_errors import errors
from assay.errors import BadInput

SCALE = 0.2
LENGTHS = [0, 1, 63, 113]
DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16], ids=["float32", "float16", "bfloat16"]
)


def made(*, batch=4, heads=4, kv_heads=2, new=1, keys=113, dim=64, dtype=torch.float32):
    """Queries and a cache of random numbers."""
    torch.manual_seed(keys * dim + heads)
    shapes = {"q": (batch, heads, new, dim)} | {n: (batch, kv_heads, keys, dim) for n in "kv"}
    tensors = {name: torch.randn(shape, dtype=dtype) for name, shape in shapes.items()}
    return tensors.pop("q"), tensors


def forget(streams, lengths):
    """The cache with NaN behind every length."""
    streams = {name: tensor.clone() for name, tensor in streams.items()}
    for tensor in streams.values():
        for sequence, length in enumerate(lengths):
            tensor[sequence, :, length:] = float("nan")
    return streams


def hold(out, q, streams, lengths=None) -> None:
    """Assert that an output is within the budget of the check."""
    assert out.dtype == q.dtype and out.shape == q.shape
    lengths = [streams["k"].shape[2]] * len(q) if lengths is None else lengths
    arrays = {name: tensor.double().cpu().numpy() for name, tensor in streams.items()}
    measured = errors(
        out.double().cpu().numpy(), None, q=q.double().cpu().numpy(), **arrays,
        lengths=torch.tensor(lengths).numpy(), scale=SCALE,
        dtype=str(q.dtype).removeprefix("torch."),
    )  # fmt: skip
    assert measured["out"] <= 1, f"budgets: {measured}"


def counted(lengths, device="cpu"):
    return torch.tensor(lengths, dtype=torch.int32, device=device)


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


class DocumentedWrapper:
    """FlashInfer's wrapper as it is documented, for pages [pages, kv heads, page size, width]."""

    plans = 0

    def __init__(self, workspace, layout, *, use_tensor_cores):
        assert layout == "HND" and not workspace.any()
        self.use_tensor_cores = use_tensor_cores

    def plan(self, begins, numbers, last, heads, kv_heads, dim, size, **others):
        type(self).plans += 1
        assert {begins.dtype, numbers.dtype, last.dtype} == {torch.int32}
        assert len(numbers) == begins[-1] and last.min() >= 1 and last.max() <= size
        assert others.pop("q_data_type") == others.pop("kv_data_type")
        self.scale = others.pop("sm_scale")
        assert not others
        self.begins, self.numbers, self.last, self.sizes = begins, numbers, last, (kv_heads, size)

    def run(self, q, cache):
        k, v = cache
        assert (k.shape[1], k.shape[2]) == self.sizes
        out = torch.empty_like(q)  # [B, H, D]
        for b in range(len(q)):
            of_sequence = self.numbers[self.begins[b] : self.begins[b + 1]].long()
            count = (len(of_sequence) - 1) * self.sizes[1] + int(self.last[b])
            group = q.shape[1] // k.shape[1]
            keys, values = (
                pool[of_sequence]
                .transpose(0, 1)
                .flatten(1, 2)[:, :count]
                .repeat_interleave(group, 0)
                for pool in (k, v)
            )
            weights = (keys @ q[b, :, :, None] * self.scale).softmax(1)  # [H, count, 1]
            out[b] = (weights * values).sum(1)
        return out


@pytest.fixture
def stand_in(monkeypatch):
    package = ModuleType("flashinfer")
    package.BatchDecodeWithPagedKVCacheWrapper = DocumentedWrapper
    monkeypatch.setitem(sys.modules, "flashinfer", package)
    monkeypatch.setattr(flashinfer, "supports", lambda **_: None)
    monkeypatch.setattr(flashinfer, "WORKSPACE_BYTES", 16)
    monkeypatch.setattr(DocumentedWrapper, "plans", 0)
    flashinfer._planned.cache_clear()
    flashinfer._workspace.cache_clear()
    yield DocumentedWrapper
    flashinfer._planned.cache_clear()
    flashinfer._workspace.cache_clear()


@pytest.mark.parametrize(("keys", "size"), [(128, 16), (120, 8), (113, 1), (1, 1)])
@pytest.mark.parametrize("with_lengths", [False, True], ids=["whole", "lengths"])
def test_flashinfer_sees_a_cache_in_one_piece_as_pages(stand_in, keys, size, with_lengths) -> None:
    q, streams = made(heads=8, kv_heads=2, keys=keys)
    assert flashinfer._page_of(streams["k"])[0] == size
    lengths = [min(length, keys) for length in LENGTHS] if with_lengths else None
    given = forget(streams, lengths) if with_lengths else streams
    counts = counted(lengths) if with_lengths else None
    hold(flashinfer.decode(q, given, scale=SCALE, lengths=counts), q, streams, lengths)


@pytest.mark.parametrize("view", ["with room", "heads last", "one sequence"])
def test_flashinfer_reads_views_without_a_copy(stand_in, view) -> None:
    q, streams = made(kv_heads=2, keys=96)
    if view == "with room":
        streams = {name: tensor.narrow(2, 0, 48) for name, tensor in streams.items()}
    elif view == "heads last":
        streams = {n: t.transpose(1, 2).contiguous().transpose(1, 2) for n, t in streams.items()}
    else:
        q, streams = q[1:2], {name: tensor[1:2] for name, tensor in streams.items()}
    size, stride = flashinfer._page_of(streams["k"])
    seen = flashinfer._in_pages(streams["k"], size, stride)
    assert size == 16 and seen.data_ptr() == streams["k"].data_ptr()
    hold(flashinfer.decode(q, streams, scale=SCALE), q, streams)


def test_flashinfer_reads_shuffled_pages(stand_in) -> None:
    """Pages lie anywhere; what no sequence has written is NaN, and its place in a table is -1."""
    lengths = [70, 0, 96, 16]
    q, streams = made(keys=96)
    tables = torch.randperm(24).reshape(4, 6).to(torch.int32)
    pools = {n: torch.full((24, 2, 16, 64), float("nan")) for n in "kv"}
    for name, pool in pools.items():
        for sequence, length in enumerate(lengths):
            for token in range(length):
                row = streams[name][sequence, :, token]
                pool[tables[sequence, token // 16], :, token % 16] = row
    needed = (counted(lengths) + 15) // 16
    tables[torch.arange(6) >= needed[:, None]] = -1
    out = flashinfer.decode(q, pools, scale=SCALE, lengths=counted(lengths), pages=tables)
    hold(out, q, streams, lengths)


def test_flashinfer_plans_once_until_lengths_are_written(stand_in) -> None:
    q, streams = made(keys=128)
    lengths = counted(LENGTHS)
    for _ in range(3):
        flashinfer.decode(q, streams, scale=SCALE, lengths=lengths)
    assert stand_in.plans == 1
    lengths += 1
    out = flashinfer.decode(q, streams, scale=SCALE, lengths=lengths)
    assert stand_in.plans == 2
    hold(out, q, streams, [length + 1 for length in LENGTHS])
    flashinfer.decode(q, streams, scale=2 * SCALE, lengths=lengths)
    flashinfer.decode(q, streams, scale=SCALE, lengths=lengths.clone())
    assert stand_in.plans == 4


@pytest.mark.parametrize("group", [1, 4])
def test_flashinfer_uses_tensor_cores_for_groups(stand_in, group) -> None:
    sizes = (torch.Size((1, group, 1, 64)), 1, 16, 1, 16, torch.float32, torch.device("cpu"), 1.0)
    wrapper, empty = flashinfer._planned(*sizes, None, 0, None, 0)
    assert wrapper.use_tensor_cores == (group == 4) and empty is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a.update(q=torch.randn(4, 4, 2, 64)), "2 new tokens"),
        (lambda a: a.update(pages=counted([[0]] * 4)), "pages without lengths"),
        (lambda a: a["streams"].update(v=a["streams"]["v"].half()), "wanted both alike"),
        (lambda a: a["streams"].update(v=a["streams"]["v"][:, :, :60]), "wanted both alike"),
        (lambda a: a.update(q=torch.randn(4, 4, 1, 65)[..., 1:]), "q has strides"),
    ],
)
def test_flashinfer_refuses_in_words(stand_in, change, words) -> None:
    q, streams = made(keys=64)
    arguments = {"q": q, "streams": streams, "scale": SCALE}
    change(arguments)
    with pytest.raises(BadInput, match=words):
        flashinfer.decode(arguments.pop("q"), arguments.pop("streams"), **arguments)


def test_flashinfer_refuses_caches_that_are_no_pages_and_lengths_it_cannot_follow(stand_in) -> None:
    q, streams = made(keys=64)
    odd = {n: torch.randn(4, 2 * 64 * 64 + 8)[:, : 2 * 64 * 64] for n in "kv"}
    odd = {name: tensor.unflatten(1, (2, 64, 64)) for name, tensor in odd.items()}
    with pytest.raises(BadInput, match="without a copy"):
        flashinfer.decode(q, odd, scale=SCALE)
    with torch.inference_mode():
        lengths = counted(LENGTHS)
    with pytest.raises(BadInput, match="inference_mode"):
        flashinfer.decode(q, streams, scale=SCALE, lengths=lengths)


def test_flashinfer_names_what_it_supports() -> None:
    sizes = {"head_dim": 128, "dtype": "bfloat16", "device": "cuda"}
    assert flashinfer.supports(**sizes) is None
    assert "NVIDIA" in flashinfer.supports(**{**sizes, "device": "cpu"})
    assert "float32 is not" in flashinfer.supports(**{**sizes, "dtype": "float32"})
    assert "80 is not" in flashinfer.supports(**{**sizes, "head_dim": 80})
    q, streams = made()
    with pytest.raises(BadInput, match="NVIDIA"):
        flashinfer.decode(q, streams, scale=SCALE)


def on_gpu(name):
    """The decode function of a file, or a skip with the reason."""
    file = plugins.listing("decode")[name]
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    if file.missing:
        pytest.skip(f"needs {', '.join(file.missing)}")
    return plugins.load(file).decode


@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
@pytest.mark.parametrize("keys", [113, 1024])
@pytest.mark.parametrize("name", ["flex", "flashinfer"])
def test_on_a_gpu(name, keys, kv_heads) -> None:
    decode = on_gpu(name)
    sizes = {"heads": 8, "kv_heads": kv_heads, "keys": keys, "dim": 128, "dtype": torch.bfloat16}
    q, streams = made(**sizes)
    for lengths in (None, LENGTHS):
        given = streams if lengths is None else forget(streams, lengths)
        given = {n: tensor.cuda() for n, tensor in given.items()}
        counts = None if lengths is None else counted(lengths, "cuda")
        hold(decode(q.cuda(), given, scale=SCALE, lengths=counts), q, streams, lengths)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("heads", "new", "dim"), [(8, 4, 64), (6, 3, 128), (16, 16, 256)])
def test_flex_with_new_tokens_on_a_gpu(heads, new, dim, dtype) -> None:
    decode = on_gpu("flex")
    q, streams = made(heads=heads, new=new, keys=300, dim=dim, dtype=dtype)
    given = {n: tensor.cuda() for n, tensor in forget(streams, LENGTHS).items()}
    out = decode(q.cuda(), given, scale=SCALE, lengths=counted(LENGTHS, "cuda"))
    hold(out, q, streams, LENGTHS)
