"""Libraries that are not installed here: called as their documentation says, through stand-ins.

A stand-in has the library's own signature and does with it what its documentation promises; so
what is tested is the argument names, the layout, the alignment and what is refused.
"""

import sys
from dataclasses import replace
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

from assay import host, plugins
from assay.attention import contract
from assay.attention.sequence import eager
from assay.devices import Device
from assay.workloads.spec import WorkloadSpec

LIBRARIES = {
    "flash_attn": "flash_attn",
    "flash_attn_cute": "flash_attn",
    "flashinfer": "flashinfer",
    "xformers": "xformers",
}
CPU = replace(host.inspect(), devices=(Device(kind="cpu", index=0, name="", memory_bytes=1),))
GPU = replace(CPU, devices=(Device(kind="cuda", index=0, name="H200", memory_bytes=1),))
AMD = replace(CPU, devices=(Device(kind="rocm", index=0, name="MI300X", memory_bytes=1),))


def spec(**given) -> WorkloadSpec:
    usual = {
        "batch": 2, "heads": 4, "kv_heads": 4, "query_length": 9, "key_length": 9,
        "head_dim": 64, "dtype": "float16", "causal": True, "seed": 0,
    }  # fmt: skip
    return WorkloadSpec(**{**usual, **given})


def plain(q, k, v, **setting):
    """eager in [batch, seq, heads, dim]."""
    out, lse = eager.attention(*(t.transpose(1, 2) for t in (q, k, v)), lse=True, **setting)
    return out.transpose(1, 2), lse


def flash_attn_func(
    q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1),
    softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False,
):  # fmt: skip
    """FlashAttention 2.8: +inf is the LSE of a row that sees nothing."""
    window = None if window_size[0] < 0 else window_size[0] + 1
    assert window is None or window_size[1] == (0 if causal else window_size[0])
    out, lse = plain(q, k, v, causal=causal, scale=softmax_scale, window=window)
    lse = lse.masked_fill(lse == float("-inf"), float("inf"))
    return (out, lse, None) if return_attn_probs else out


def cute_flash_attn_func(
    q, k, v, qv=None, gather_kv_indices=None, softmax_scale=None, causal=False,
    window_size=(None, None), learnable_sink=None, softcap=0.0, num_splits=1, pack_gqa=None,
    deterministic=False, score_mod=None, score_mod_bwd=None, mask_mod=None, aux_tensors=None,
    aux_scalars=None, block_sparse_tensors=None, block_sparse_tensors_bwd=None, return_lse=False,
):  # fmt: skip
    """FlashAttention CuTe 4.0: always a pair."""
    assert not causal or q.shape[1] <= k.shape[1]
    window = None if window_size[0] is None else window_size[0] + 1
    out, lse = plain(q, k, v, causal=causal, scale=softmax_scale, window=window)
    return out, lse if return_lse or q.requires_grad else None


def memory_efficient_attention(
    query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None, output_dtype=None
):
    """xFormers 0.0.35."""
    causal = attn_bias == "bottom right"
    assert not causal or query.shape[1] <= key.shape[1]
    return plain(query, key, value, causal=causal, scale=scale)[0]


class BatchPrefillWithRaggedKVCacheWrapper:
    """FlashInfer 0.6 and 0.7."""

    plans = 0

    def __init__(self, float_workspace_buffer, kv_layout="NHD", use_cuda_graph=False):
        assert float_workspace_buffer.dtype == torch.uint8 and kv_layout == "NHD"

    def plan(
        self, qo_indptr, kv_indptr, num_qo_heads, num_kv_heads, head_dim_qk, head_dim_vo=None,
        custom_mask=None, packed_custom_mask=None, causal=False, pos_encoding_mode="NONE",
        use_fp16_qk_reduction=False, window_left=-1, logits_soft_cap=None, sm_scale=None,
        rope_scale=None, rope_theta=None, q_data_type="float16", kv_data_type=None,
    ):  # fmt: skip
        assert qo_indptr.dtype == kv_indptr.dtype == torch.int32
        assert not causal or (qo_indptr.diff() <= kv_indptr.diff()).all()
        self.bounds = (qo_indptr.tolist(), kv_indptr.tolist())
        self.heads = (num_qo_heads, num_kv_heads, head_dim_qk)
        self.setting = {"causal": causal, "scale": sm_scale}
        self.dtypes = (q_data_type, kv_data_type)
        type(self).plans += 1

    def run(self, q, k, v, *, return_lse=False):
        assert q.is_contiguous() and k.is_contiguous() and v.is_contiguous()
        assert (q.dtype, k.dtype) == self.dtypes
        assert (*q.shape[1:2], *k.shape[1:]) == self.heads
        rows, columns = self.bounds
        assert rows[-1] == q.shape[0] and columns[-1] == k.shape[0]
        parts = []
        for i in range(len(rows) - 1):
            q_, k_, v_ = (
                t[bounds[i] : bounds[i + 1]][None]
                for t, bounds in ((q, rows), (k, columns), (v, columns))
            )
            parts.append(plain(q_, k_, v_, **self.setting)[0][0])
        return torch.cat(parts)


def stand_in(monkeypatch, name, **members):
    """A module of that name and its parents, in place of whatever is installed."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        path = ".".join(parts[:end])
        if end == len(parts) or path not in sys.modules:
            module = ModuleType(path)
            module.__path__ = []
            monkeypatch.setitem(sys.modules, path, module)
    for key, value in members.items():
        setattr(sys.modules[name], key, value)


@pytest.fixture
def stand_ins(monkeypatch):
    stand_in(monkeypatch, "flash_attn", flash_attn_func=flash_attn_func)
    stand_in(monkeypatch, "flash_attn.cute.interface", flash_attn_func=cute_flash_attn_func)
    stand_in(monkeypatch, "xformers.ops", memory_efficient_attention=memory_efficient_attention)
    stand_in(
        monkeypatch,
        "xformers.ops.fmha.attn_bias",
        LowerTriangularFromBottomRightMask=lambda: "bottom right",
    )
    wrapper = BatchPrefillWithRaggedKVCacheWrapper
    stand_in(monkeypatch, "flashinfer", BatchPrefillWithRaggedKVCacheWrapper=wrapper)


def inputs(queries, keys, kv_heads=4):
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, queries, 4, 64), (2, keys, kv_heads, 64), (2, keys, kv_heads, 64)]
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", [(9, 9), (5, 9), (9, 5), (1, 9)])
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("name", LIBRARIES)
def test_called_as_documented(stand_ins, name, kv_heads, lengths, causal):
    if name == "xformers" and kv_heads != 4:
        pytest.skip("it refuses grouped heads")
    tensors = inputs(*lengths, kv_heads)
    attention = contract.load(name).attention
    actual = attention(*tensors, causal=causal, scale=0.3)
    expected = plain(*tensors, causal=causal, scale=0.3)[0]
    assert torch.allclose(actual, expected, atol=1e-6)
    wide = [torch.stack((t, t), dim=-1).flatten(-2)[..., ::2] for t in tensors]
    assert torch.allclose(attention(*wide, causal=causal, scale=0.3), expected, atol=1e-6)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", [(9, 9), (5, 9), (9, 5)])
@pytest.mark.parametrize("name", ["flash_attn", "flash_attn_cute"])
def test_lse_and_window(stand_ins, name, lengths, causal):
    tensors = inputs(*lengths)
    attention = contract.load(name).attention
    for window in (None, 3):
        setting = {"causal": causal, "scale": 0.3, "window": window}
        if name == "flash_attn_cute" and window and not causal and lengths[0] > lengths[1]:
            continue  # refused
        actual = attention(*tensors, lse=True, **setting)
        expected = plain(*tensors, **setting)
        assert all(map(torch.allclose, actual, expected))


def test_flashinfer_plans_a_shape_once(stand_ins):
    attention = contract.load("flashinfer").attention
    before = BatchPrefillWithRaggedKVCacheWrapper.plans
    for _ in range(3):
        attention(*inputs(7, 8), causal=True, scale=0.125)
    assert BatchPrefillWithRaggedKVCacheWrapper.plans == before + 1


@pytest.mark.parametrize(("name", "package"), LIBRARIES.items())
def test_an_absent_library_is_named_and_nothing_is_imported(name, package):
    plugin = plugins.find("sequence", name)
    assert plugin.requires == ("torch", package)
    assert plugin.literals["LAYOUT"] == "BSHD"
    if not plugins.installed(package):
        assert plugin.missing == (package,)
    contract.load(name)  # importing the file asks for no library
    if not plugins.installed(package):
        assert package not in sys.modules


@pytest.mark.parametrize("name", LIBRARIES)
def test_what_is_refused(stand_ins, monkeypatch, name):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    supports = contract.load(name).supports
    assert supports(spec(), GPU) is None
    assert "NVIDIA GPUs only" in supports(spec(), CPU)
    assert "NVIDIA GPUs only" in supports(spec(), AMD)
    assert "head_dim 320 is not one of" in supports(spec(head_dim=320), GPU)
    if name == "xformers":
        assert supports(spec(dtype="float32"), GPU) is None
        assert "grouped heads" in supports(spec(kv_heads=2), GPU)
    else:
        assert "float32 is not one of float16, bfloat16" in supports(spec(dtype="float32"), GPU)
        assert supports(spec(kv_heads=2), GPU) is None


def test_windows_that_are_refused(monkeypatch):
    """Without a causal mask, where the first queries stand before the first key."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name, window in (("flash_attn", 10), ("flash_attn_cute", 3)):
        supports = contract.load(name).supports
        full = spec(query_length=9, key_length=5, window=window, causal=False)
        assert "window" in supports(full, GPU)
        assert supports(replace(full, causal=True), GPU) is None
        assert supports(replace(full, key_length=9), GPU) is None


def test_the_two_libraries_called_flash_attn_are_told_apart(monkeypatch):
    def only(*there):
        monkeypatch.setattr(
            "importlib.util.find_spec", lambda name: object() if name in there else None
        )

    second, cute = (contract.load(name).supports for name in ("flash_attn", "flash_attn_cute"))
    only("flash_attn", "flash_attn_2_cuda")
    assert second(spec(), GPU) is None and "not FlashAttention CuTe" in cute(spec(), GPU)
    only("flash_attn", "flash_attn.cute")
    assert cute(spec(), GPU) is None and "not FlashAttention-2" in second(spec(), GPU)
    only()
    assert second(spec(), GPU) and cute(spec(), GPU)
