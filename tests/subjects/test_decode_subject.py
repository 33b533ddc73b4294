"""Decode kernels as subjects: names, what a cache holds and gives back, rounds, work, refusals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from assay import host, plugins
from assay.correctness import judge
from assay.errors import BadInput
from assay.kv import contract
from assay.kv.contract import KVSpec
from assay.performance.rounds import checksums
from assay.subjects import decode, forked
from assay.subjects.change import FACTORS, InputChange
from assay.subjects.decode import cache, names, pages
from assay.subjects.outcome import Unsupported
from assay.workloads.spec import WorkloadSpec
from benchmarks.decode_errors import errors

HERE = host.inspect(commit=False)
EXAMPLE = Path(__file__).parent.parent.parent / "docs" / "examples" / "my_decode.py"
HEADS = ("dense:sdpa", "k16v8:dequantised", "k8v8:dequantised", "int8:dequantised",
         "int4:dequantised")  # fmt: skip
needs_triton = pytest.mark.skipif(not plugins.installed("triton"), reason="needs triton")
ROWS = '''"""Rows of latents in plain torch."""
import torch

LAYOUT = "mla_latent"
ACCEPTS = ()


def decode(q, streams, *, scale, value_width):
    rows = streams["latent"].float()[:, None]
    new, keys = q.shape[2], rows.shape[2]
    hidden = torch.ones(new, keys, dtype=torch.bool).triu(keys - new + 1)
    weights = (scale * q.float() @ rows.mT).masked_fill(hidden, -torch.inf).softmax(-1)
    return (weights @ rows[..., :value_width]).to(q.dtype)
'''


def spec(**changes) -> WorkloadSpec:
    fields = {
        "batch": 2, "heads": 4, "kv_heads": 2, "query_length": 1, "key_length": 113,
        "head_dim": 64, "dtype": "float32", "causal": True, "seed": 0,
    }  # fmt: skip
    return WorkloadSpec(**{**fields, **changes})


def bound(name, folders=(), **changes) -> decode.DecodeSubject:
    workload = decode.make(spec(**changes))
    return decode.bind(name, workload, host=HERE, device="cpu", folders=folders)


@pytest.fixture
def rows(tmp_path) -> str:
    (tmp_path / "rows.py").write_text(ROWS)
    return str(tmp_path / "rows.py")


def test_names_are_of_every_file_with_its_layout() -> None:
    known = names.names()
    assert {"dense:dense", "dense:sdpa_cudnn", "k16v8:k16v8", "int4:dequantised"} <= set(known)
    assert {"mla_latent:mla_latent", "splice:splice"} <= set(known)
    assert not {"dense:dequantised", "mla_latent:dequantised", "any:dequantised"} & set(known)
    assert len(known) == len(set(known))


def test_a_file_of_one_layout_stands_alone() -> None:
    assert names.completed("k16v8") == "k16v8:k16v8"
    assert names.completed("decode/sdpa_cudnn") == "dense:sdpa_cudnn"
    assert names.completed("int4:dequantised") == "int4:dequantised"
    assert names.completed(str(EXAMPLE)) == "k16v8:my_decode"
    assert names.completed(f"k16v8:{EXAMPLE}") == "k16v8:my_decode"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("dequantised", "say which, as in int4:dequantised"),
        ("int4:k16v8", "reads k16v8, not int4"),
        ("int5:dequantised", "no layout 'int5'"),
        ("k16v9", "no decode kernel 'k16v9'"),
        ("mine/none.py", "there is no file mine/none.py"),
    ],
)
def test_names_that_stand_for_nothing_are_refused(entry, words) -> None:
    with pytest.raises(BadInput, match=words):
        names.completed(entry)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", HEADS)
def test_right_values_are_those_of_what_the_cache_gives_back(name, dtype) -> None:
    """As the tests of the kernels measure it."""
    call = bound(name, dtype=dtype, query_length=2)
    (comparison,) = judge.compare_forward(call)
    assert comparison.holds and comparison.share > 0
    whole = contract.load(name.partition(":")[0]).decode(call.cache.streams, ())
    measured = errors(
        call.numpy(call()),
        None,
        q=call.workload.q,
        **{n: whole[n].float().numpy() for n in "kv"},
        lengths=np.full(2, 113),
        scale=call.workload.spec.scale,
        dtype=dtype,
    )
    assert measured["out"] <= comparison.share + 1e-9


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("layout", ["dense", "k16v8", "k16v8_e5m2", "k8v8", "int8", "int4"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_round_has_the_values_times_its_factor_exactly(layout, factor, dtype) -> None:
    workload = decode.make(spec(dtype=dtype))
    arrays = {n: torch.from_numpy(getattr(workload, n)).to(getattr(torch, dtype)) for n in "kv"}
    held = cache.hold(contract.load(layout), workload, arrays)
    before, after = (held.layout.decode(s, ()) for s in (held.streams, held.renewed(factor)))
    assert torch.equal(after["v"], factor * before["v"])
    assert torch.equal(after["k"], before["k"])


def test_a_round_is_on_new_tensors_and_leaves_the_others(rows) -> None:
    call = bound("int4:dequantised")
    before = checksums(call)
    change = InputChange(number=3)
    second = call.renewed(change)
    right = call.spots(change)
    seen = second.numpy(second(), call.places(change)["out"])
    assert (np.abs(seen - right.result.out) <= right.allowed["out"].largest).all()
    assert not np.allclose(seen, call.numpy(call(), call.places(change)["out"]), atol=0.1)
    assert checksums(call) == before
    for array in call.inputs:
        array.zero_()
    call.restore()
    assert checksums(call) == before
    latent = bound(rows, kv_heads=1, head_dim=96)
    again, right = latent.renewed(change), latent.spots(change)
    seen = again.numpy(again(), latent.places(change)["out"])
    assert (np.abs(seen - right.result.out) <= right.allowed["out"].largest).all()


def test_latents_are_keys_whose_first_numbers_are_values(rows) -> None:
    for dim, width in ((64, 64), (96, 64), (288, 256), (576, 512)):
        call = bound(rows, kv_heads=1, head_dim=dim, key_length=40, query_length=3)
        assert call.options["value_width"] == width and call().shape[-1] == width
        assert all(comparison.holds for comparison in judge.compare_forward(call))
        assert call.work()[0].kv_cache_bytes == 2 * 40 * dim * 4


def test_work_is_the_bytes_that_the_layout_keeps() -> None:
    for name in HEADS:
        call = bound(name, dtype="bfloat16")
        work, formulas = call.work()
        layout = contract.load(name.partition(":")[0])
        heads = {"key_heads": 2, "value_heads": 2}
        token = layout.bytes_per_token(KVSpec(dtype="bfloat16", head_dim=64, **heads))
        assert work.kv_cache_bytes == 2 * 113 * token
        assert work.kv_cache_bytes == sum(t.nbytes for t in call.cache.streams.values())
        assert work.forward_bytes == work.kv_cache_bytes + 2 * call.inputs[0].nbytes
        assert work.forward_flops == 4 * 64 * 4 * 2 * 113
        assert set(formulas) == set(vars(work))


def test_files_of_one_layout_share_their_tensors() -> None:
    workload, placed = decode.make(spec()), {}
    first, second, other = (
        decode.bind(name, workload, host=HERE, device="cpu", placed=placed)
        for name in ("k16v8:dequantised", str(EXAMPLE), "k8v8:dequantised")
    )
    assert all(a is b for a, b in zip(first.inputs, second.inputs, strict=True))
    assert first.expected() is second.expected() and first.expected() is not other.expected()


def test_behind_every_length_lies_nan_and_lengths_count() -> None:
    call = bound("k16v8:dequantised", padded=True, batch=4, query_length=3, seed=3)
    scales, lengths = call.cache.streams["v_scale"], call.workload.lengths
    for sequence, length in enumerate(lengths):
        assert scales[sequence, :, length:].isnan().all()
        assert not scales[sequence, :, :length].isnan().any()
    assert all(comparison.holds for comparison in judge.compare_forward(call))
    token = 2 * (64 * 4 + 64 + 2)
    assert call.work()[0].kv_cache_bytes == lengths.sum() * token


def test_a_large_cache_is_decoded_where_it_is_looked_at(monkeypatch) -> None:
    """And gives the same right values as one that is decoded whole."""
    small = bound("int8:dequantised", query_length=2, batch=3, padded=True, seed=1)
    monkeypatch.setattr(cache, "_WHOLE_KEYS", 0)
    large = bound("int8:dequantised", query_length=2, batch=3, padded=True, seed=1)
    some = large.expected()
    assert some.index is not None and all(c.holds for c in judge.compare_forward(large))
    whole = small.expected().result.out[some.index["out"]]
    assert np.array_equal(some.result.out, whole)
    large.inputs[-1].mul_(2)
    assert not all(c.holds for c in judge.compare_forward(large))


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("dense:sdpa", {"query_length": 4, "key_length": 3}, "4 new tokens of 3 keys"),
        ("dense:sdpa", {"query_length": 2, "causal": False}, "give a causal workload"),
        ("dense:sdpa", {"window": 4}, "takes no window"),
        ("dense:sdpa", {"masked": True}, "takes no mask"),
        ("dense:sdpa", {"layout": "strided"}, "does not lie in memory as strided"),
        ("dense:sdpa_cudnn", {}, "runs on an NVIDIA GPU only"),
        ("int4:dequantised", {"head_dim": 40}, "no whole groups of 32"),
        pytest.param("k16v8", {"dtype": "bfloat16"}, "interpreter", marks=needs_triton),
        pytest.param("k16v8", {"head_dim": 18}, "18 numbers", marks=needs_triton),
        pytest.param("mla_latent", {}, "give a workload with kv_heads 1", marks=needs_triton),
    ],
)
def test_a_workload_that_is_no_step_is_unsupported_in_words(name, changes, words) -> None:
    with pytest.raises(Unsupported, match=words):
        bound(name, **changes)


def test_one_query_needs_no_causal_mask() -> None:
    assert all(c.holds for c in judge.compare_forward(bound("dense:sdpa", causal=False)))


@needs_triton
@pytest.mark.parametrize("name", ["k16v8", "int4", "mla_latent"])
def test_our_kernels_hold_with_their_lse_and_in_pages(name) -> None:
    latent = {"kv_heads": 1, "head_dim": 96} if name == "mla_latent" else {}
    call = bound(name, padded=True, key_length=70, query_length=2, seed=2, **latent)
    for each in (call, pages.shuffled(call, size=16)):
        comparisons = judge.compare_forward(each)
        assert [c.tensor for c in comparisons] == ["out", "lse"]
        assert all(c.holds for c in comparisons), comparisons


def test_another_process_is_given_the_file_and_its_layout() -> None:
    call = bound(str(EXAMPLE))
    name = forked._name_elsewhere(call)
    assert name == f"k16v8:{EXAMPLE}"
    request = {"kind": "decode", "name": name, "spec": spec().as_dict(), "device": "cpu"}
    assert forked.bound(request).name == call.name == "k16v8:my_decode"


def test_an_output_of_another_form_is_said_in_words() -> None:
    call = bound("dense:sdpa")
    assert "wanted a tensor" in call.form_problem("out", None)
    assert "has shape (1,)" in call.form_problem("out", torch.zeros(1))
    assert "has dtype float16" in call.form_problem("out", call().half())
    assert call.form_problem("out", call()) is None
    assert call.on(replace(call.workload)).name == call.name


def test_a_backend_without_a_kernel_for_a_shape_refuses(tmp_path) -> None:
    """cuDNN has none for a single key, and torch raises a RuntimeError: it was a failure of the
    kernel that all others are compared with, which then got no speed."""
    (tmp_path / "picky.py").write_text(
        '"""Refuses."""\n\n\ndef decode(q, streams, *, scale, lengths=None):\n'
        '    raise RuntimeError("No available kernel. Aborting execution.")\n'
    )
    with pytest.raises(Unsupported, match="No available kernel"):
        bound(str(tmp_path / "picky.py"))()
