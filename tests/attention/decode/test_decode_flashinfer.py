"""FlashInfer over a cache. Without a GPU a stand-in reads pages as its documentation describes it,
so that tables, views and plans are tested without it."""

import sys
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

from whole_caches import LENGTHS, SCALE, counted, forget, hold, hold_on_gpu, made

from assay.attention.decode import flashinfer
from assay.errors import BadInput


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


@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
@pytest.mark.parametrize("keys", [113, 1024])
def test_on_a_gpu(keys, kv_heads) -> None:
    hold_on_gpu("flashinfer", keys, kv_heads)
