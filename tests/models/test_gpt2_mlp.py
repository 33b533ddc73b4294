"""The reciprocal MLP and MLPSplice against their formulas, and how context passes on."""

import pytest

pytest.importorskip("torch")

import torch
from tiny_gpt2 import make, tokens
from torch.nn import functional as F

from assay.models.gpt2.mlp import AttentionExports
from assay.models.gpt2.parts.mlp_cross_token import sparse

TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture
def hidden():
    return torch.randn(2, 16, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


@torch.no_grad()
def test_attention_gate_is_a_running_mean(hidden):
    model = make("GPT2_MG")
    sender, receiver = (block.couplings["mlp_gate"] for block in model.h[1:3])
    made = sender.emit(hidden, None)
    for i in range(16):
        mean = sender.squeeze(hidden[:, : i + 1]).mean(dim=1)
        gate = sender.gate(mean).sigmoid()
        torch.testing.assert_close(made["head_gate"][:, :, i, 0], gate, **TOLERANCE)
    wanted = (1 - receiver.alpha) + receiver.alpha * made["head_gate"]
    torch.testing.assert_close(receiver.head_factor(made), wanted, **TOLERANCE)


@torch.no_grad()
@pytest.mark.parametrize("mode", ["topk", "rms", "none"])
def test_cross_token(hidden, mode):
    coupling = make("GPT2_MX", mx_sparse=mode).h[1].couplings["mlp_cross"]
    scores = torch.randn(2, 2, 16, 16, dtype=torch.float64)
    weights = scores.masked_fill(torch.ones(16, 16).triu(1).bool(), -torch.inf).softmax(-1)
    mean = weights.mean(dim=1)
    for i in range(16):
        row = mean[:, i, : i + 1].clone()
        if mode == "topk" and i >= 3:
            row[row < row.sort(dim=-1).values[:, -3:-2]] = 0
        if mode == "rms":
            row[row < 0.5 * row.square().mean(-1, keepdim=True).sqrt()] = 0
        mean[:, i, : i + 1] = row / row.sum(-1, keepdim=True)
    added = coupling.widen(mean @ coupling.squeeze(hidden))
    outputs = coupling.enrich(hidden, AttentionExports(hidden, weights), None)
    torch.testing.assert_close(outputs, hidden + coupling.alpha * added, **TOLERANCE)


def test_equal_weights_are_all_kept():
    row = torch.full((1, 1, 6), 1 / 6)
    assert torch.equal(sparse(row, "topk", k=2, tau=0.5), row)


@torch.no_grad()
@pytest.mark.parametrize("tying", ["tied_transpose", "untied", "per_head_scalar"])
def test_latent_reciprocity(hidden, tying):
    model = make("GPT2_MLA_MR", mr_tying=tying)
    sender, receiver = (block.couplings["mlp_latent"] for block in model.h[1:3])
    latent = torch.randn(2, 16, 12, dtype=torch.float64)
    up = latent @ sender.to_hidden.weight.T
    if tying == "tied_transpose":
        down = hidden @ sender.to_hidden.weight
    else:
        down = hidden @ sender.to_latent.weight.T
    if tying == "per_head_scalar":
        up = up * sender.share_in.repeat_interleave(16)
        down = down * sender.share_out.repeat_interleave(6)
    enriched = sender.enrich(hidden, AttentionExports(latent, None), None)
    torch.testing.assert_close(enriched, hidden + sender.alpha * up, **TOLERANCE)
    made = sender.emit(hidden, None)
    torch.testing.assert_close(receiver.added_latent(made), receiver.alpha * down, **TOLERANCE)


@pytest.mark.parametrize("name", ["GPT2_MG", "GPT2_MR", "GPT2_MLA_MR"])
def test_the_first_block_is_handed_nothing_and_the_last_sends_nothing(name):
    model = make(name)
    (slot,) = model.h[0].couplings
    contexts = []
    for block in model.h:
        block.register_forward_pre_hook(
            lambda block, args, kwargs: contexts.append(dict(kwargs["context"])), with_kwargs=True
        )
    model(tokens())
    assert contexts[0] == {} and all(contexts[1:])
    last = model.h[-1].couplings[slot]
    assert last.emit(torch.zeros(1, 1, 32, dtype=torch.float64), None) == {}


def test_coupling_can_be_raised_from_nothing():
    model, idx = make("GPT2_MG_MX"), tokens()
    outputs = []
    for share in (0.0, 0.5, 1.0):
        model.set_coupling(share)
        outputs.append(model(idx)[0])
    plain = model.baseline().double()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if "couplings" not in k})
    assert torch.equal(outputs[0], plain(idx)[0])
    assert not torch.equal(outputs[1], outputs[2]) and not torch.equal(outputs[0], outputs[1])


@torch.no_grad()
def test_mlp_splice_leaves_by_the_transpose_of_its_entrance():
    mlp = make("GPT2_M").h[0].mlp
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    inner = mlp.c_proj(F.gelu(mlp.c_fc(x @ mlp.enter.weight.T)))
    torch.testing.assert_close(mlp.down(mlp.up(x)), inner @ mlp.enter.weight, **TOLERANCE)
