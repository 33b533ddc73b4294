"""Capture on a GPU: the model never waits, and what it writes over later is kept as it was."""

import pytest
import torch
import torch_models as made
from test_torch_statistics import agree, cases
from torch import nn
from torch.nn import functional

import assay
from assay.captures.store import Store

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
HALVES = [torch.float16, torch.bfloat16]


def test_no_synchronisation(tmp_path):
    """torch itself refuses any that it makes."""
    model = made.transformer("llama").cuda().train()
    tokens = made.tokens().cuda()
    model(tokens)
    for mode in ("full", "stats"):
        with assay.capturing(model, tmp_path / mode, mode=mode):
            model(tokens)  # the first loads kernels
            torch.cuda.set_sync_debug_mode("error")
            try:
                model(tokens).logits.sum().backward()
            finally:
                torch.cuda.set_sync_debug_mode("default")
        assert len(made.records(tmp_path / mode)) == 6


def test_what_is_written_over_at_once_is_kept(tmp_path):
    class Overwrites(nn.Module):
        def forward(self, x):
            out = functional.scaled_dot_product_attention(x, x, x)
            kept = out.clone()
            x.fill_(float("nan")), out.fill_(float("nan"))
            return kept

    model = Overwrites()
    inputs = [torch.randn(4, 8, 512, 64, device="cuda") for _ in range(20)]
    before = [x.cpu() for x in inputs]
    with assay.capturing(model, tmp_path):
        outputs = [model(x).cpu() for x in inputs]
    store = Store.open(tmp_path)
    for record, x, out in zip(store.manifest().records, before, outputs, strict=True):
        read = store.read(record)
        assert torch.equal(made.as_torch(read["q"]), x)
        assert torch.equal(made.as_torch(read["out"]), out)


@pytest.mark.parametrize("dtype", HALVES)
def test_replay_is_exact(tmp_path, dtype):
    model = made.transformer("llama").to("cuda", dtype).eval()
    with assay.capturing(model, tmp_path):
        model(made.tokens().cuda())
        model.generate(made.tokens().cuda(), max_new_tokens=3, do_sample=False)
    store = Store.open(tmp_path)
    for record in store.manifest().records:
        read = store.read(record)
        q, k, v, out = (
            made.as_torch(read[n], record.tensors[n].order).cuda() for n in ("q", "k", "v", "out")
        )
        again = functional.scaled_dot_product_attention(
            q,
            k,
            v,
            is_causal=record.scalars["causal"],
            scale=record.scalars["scale"],
            enable_gqa=not record.scalars["kv_repeated"],
        )
        assert record.device == "cuda:0" and torch.equal(again, out), record.name


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_statistics(dtype):
    from assay.captures.torch.step_statistics import SummaryBatch

    tensors = [tensor.to("cuda", dtype) for tensor in cases().values()] * 2
    batch = SummaryBatch(tensors[0].device)
    waiting = [batch.add(tensor) for tensor in tensors]
    batch.send()
    statistics = [wait() for wait in waiting]
    for computed, tensor in zip(statistics, tensors, strict=True):
        agree(computed, tensor.cpu())
    assert statistics[: len(cases())] == statistics[len(cases()) :]


def test_checkpointing_in_threads_of_the_backward_pass(tmp_path):
    model = made.Plain(reentrant=False).cuda()
    with assay.capturing(model, tmp_path, mode="shapes") as capture:
        for _ in range(2):
            model(made.inputs().cuda()).sum().backward()
    assert len(made.records(tmp_path)) == 6 and not capture.report().duplicates


def test_compiled(tmp_path):
    torch._dynamo.reset()
    model = made.transformer("llama", layers=2).cuda().train()
    tokens = made.tokens().cuda()
    compiled = torch.compile(model)
    compiled(tokens).logits.sum().backward()
    with assay.capturing(model, tmp_path) as capture:
        for _ in range(2):
            compiled(tokens).logits.sum().backward()
    compiled(tokens)
    store = Store.open(tmp_path)
    assert len(store.manifest().records) == 4 and not capture.report().dropped
    for record in store.manifest().records:
        assert {"x", "q", "k", "v", "out", "layer_out"} <= set(store.read(record))
