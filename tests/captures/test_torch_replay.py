"""Replay: captured inputs give the captured output again, bit for bit."""

from contextlib import nullcontext

import pytest
import torch
import torch_models as made

import assay
from assay.captures.store import Store

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def replays(path):
    """All records of a store, each replayed and equal."""
    store = Store.open(path)
    records = store.manifest().records
    for record in records:
        out, captured = made.replayed(store, record)
        assert torch.equal(out, captured), record.name
    return records


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 63, 111])
def test_torch_function(tmp_path, dtype, length):
    model = made.Plain().to(dtype)
    with assay.capturing(model, tmp_path):
        model(made.inputs(length=length).detach().to(dtype))
    records = replays(tmp_path)
    assert len(records) == 3
    assert records[0].tensors["q"].dtype == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_what_the_kernel_is_given_is_kept(tmp_path, dtype):
    """A mode sees q, k and v before autocast casts them; the kernel gets them cast."""

    class Float32Attention(made.SelfAttention):
        def forward(self, x):
            with torch.autocast("cpu", enabled=False):
                q, k, v = (
                    part.unflatten(-1, (2, 8)).transpose(1, 2)
                    for part in self.qkv(x.float()).chunk(3, -1)
                )
            assert q.dtype == torch.float32
            bias = torch.zeros(q.shape[2], k.shape[2])
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            assert out.dtype == dtype
            return self.project(out.transpose(1, 2).flatten(2))

    model = made.Plain()
    for block in model.blocks:
        block.attn = Float32Attention()
    with assay.capturing(model, tmp_path), torch.autocast("cpu", dtype):
        model(made.inputs())
    records = replays(tmp_path)
    name = str(dtype).removeprefix("torch.")
    assert {records[0].tensors[tensor].dtype for tensor in ("q", "k", "v", "mask", "out")} == {name}


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt2"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_transformers_in_training_and_decoding(tmp_path, kind, dtype):
    model = made.transformer(kind, **({} if kind != "gpt2" else NO_DROPOUT)).to(dtype)
    with assay.capturing(model, tmp_path):
        model(made.tokens())
        model.eval().generate(made.tokens(), max_new_tokens=3, do_sample=False)
    records = replays(tmp_path)
    assert [r.phase for r in records[::3]] == ["train", "prefill", "decode", "decode"]
    if kind != "gpt2":
        assert records[0].tensors["k"].shape[1] == 2  # heads of k and v are not repeated


NO_DROPOUT = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}


@pytest.mark.parametrize("autocast", [False, True])
def test_left_padding(tmp_path, autocast):
    model = made.transformer("llama").eval()
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, :3] = 0
    context = torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext()
    with assay.capturing(model, tmp_path), context:
        model.generate(made.tokens(), attention_mask=mask, max_new_tokens=3, do_sample=False)
    records = replays(tmp_path)
    assert [r.tensors["mask"].shape for r in records[::3]] == [
        (2, 1, 7, 7),
        (2, 1, 1, 8),
        (2, 1, 1, 9),
    ]
    seen = Store.open(tmp_path).read(records[0])["mask"].numbers()
    assert not seen[1, 0, :, :3].any() and seen[0, 0, -1].all()
