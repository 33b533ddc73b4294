"""The family under torch.compile, as one graph: nothing of a variant is left to Python."""

import pytest

pytest.importorskip("torch")

import torch
from tiny_gpt2 import make, tokens

VARIANTS = (
    "GPT2",
    "GPT2_RACT_MG_MX_MR",
    "GPT2_RAMIX",
    "GPT2_MLA_ROPE_KV",
    "GPT2_MLA_RALEARN_GATE_KV2M",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_one_graph_gives_the_same_loss_and_reaches_every_parameter(name):
    torch._dynamo.reset()
    model, idx = make(name).float().train(), tokens()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    loss = compiled(idx, idx)[1]
    assert torch.equal(loss, model(idx, idx)[1])
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
