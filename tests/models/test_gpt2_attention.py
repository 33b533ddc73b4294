"""Each form of attention against its formula, written out in float64 with whole matrices."""

from math import log, sqrt

import pytest

pytest.importorskip("torch")

import torch
from tiny_gpt2 import decode, make, tokens
from torch.nn import functional as F

from assay.models.gpt2.parts.cross_token_gate import statistic

HIDDEN = torch.ones(16, 16, dtype=torch.bool).triu(1)
TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture
def x():
    return torch.randn(2, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def layer_of(name, number=2, **options):
    return make(name, **options).h[number].attn


def call(attn, x):
    """The layer's output, before its last projection is undone."""
    with torch.no_grad():
        return attn(x, past=None, added_latent=None, head_factor=None)[0]


def heads(tensor):
    return tensor.unflatten(-1, (2, -1)).transpose(1, 2)


def roles(attn, x):
    return [heads(part) for part in attn.source.c_attn(x).chunk(3, dim=-1)]


def both(q, k):
    """Scaled scores and their transpose, not masked."""
    return q @ k.mT / sqrt(q.shape[-1]), k @ q.mT / sqrt(q.shape[-1])


def spread(scores):
    return scores.masked_fill(HIDDEN, -torch.inf).softmax(-1)


def out(attn, per_head):
    return attn.c_proj(per_head.transpose(1, 2).flatten(2))


@torch.no_grad()
def test_plain(x):
    attn = layer_of("GPT2")
    q, k, v = roles(attn, x)
    torch.testing.assert_close(call(attn, x), out(attn, spread(both(q, k)[0]) @ v), **TOLERANCE)


@torch.no_grad()
@pytest.mark.parametrize("number", [1, 3])
def test_fixed_reciprocal_exchanges_roles_in_its_layers(x, number):
    attn = layer_of("GPT2_RA", number)
    q, k, v = roles(attn, x)
    wanted = spread(both(q, k)[number >= 2]) @ v
    torch.testing.assert_close(call(attn, x), out(attn, wanted), **TOLERANCE)


@torch.no_grad()
def test_learned_reciprocal_masks_after_transposing(x):
    attn = layer_of("GPT2_RALEARN")
    q, k, v = roles(attn, x)
    standard, swapped = both(q, k)
    p = attn.reciprocal.logit.sigmoid()
    wanted = (1 - p) * spread(standard) @ v + p * spread(swapped) @ v
    torch.testing.assert_close(call(attn, x), out(attn, wanted), **TOLERANCE)


@torch.no_grad()
def test_mixed_scores(x):
    attn = layer_of("GPT2_RAMIX")
    q, k, v = roles(attn, x)
    standard, swapped = both(q, k)
    share = attn.reciprocal.shares.softmax(-1)[:, :, None, None]
    alone = torch.einsum("bhjd,hd->bhj", k, attn.reciprocal.u)[:, :, None]
    alone = alone - alone.mean(dim=-1, keepdim=True)
    scores = share[:, 0] * standard + share[:, 1] * swapped + share[:, 2] * alone
    torch.testing.assert_close(call(attn, x), out(attn, spread(scores) @ v), **TOLERANCE)


@torch.no_grad()
def test_banded_scores_reach_only_their_window(x):
    attn = layer_of("GPT2_RABAND")
    q, k, v = roles(attn, x)
    standard, swapped = both(q, k)
    for i in range(16):
        for j in range(i + 1):
            if i - j <= 5:
                standard[..., i, j] += 0.3 * swapped[..., i, j]
    torch.testing.assert_close(call(attn, x), out(attn, spread(standard) @ v), **TOLERANCE)


@torch.no_grad()
def test_extra_view_of_the_last_head(x):
    attn = layer_of("GPT2_RAVIEW")
    q, k, v = roles(attn, x)
    extra = spread(both(q, k)[1][:, 1:]) @ v[:, 1:]
    part = attn.reciprocal
    added = part.beta.tanh() * part.norm(part.project(extra.transpose(1, 2).flatten(2)))
    wanted = attn.c_proj((spread(both(q, k)[0]) @ v).transpose(1, 2).flatten(2) + added)
    torch.testing.assert_close(call(attn, x), wanted, **TOLERANCE)


def test_extra_view_sits_in_the_middle():
    model = make("GPT2_RAVIEW")
    assert [block.attn.reciprocal is not None for block in model.h] == [False, True, True, True]


@torch.no_grad()
@pytest.mark.parametrize("mode", ["topk", "max", "entropy", "rms"])
@pytest.mark.parametrize("apply", ["output", "weights"])
def test_cross_token_gate(x, mode, apply):
    attn = layer_of("GPT2_RACT", ct_mode=mode, ct_apply=apply)
    q, k, v = roles(attn, x)
    scores = both(q, k)[0]
    weights = spread(scores)
    stats = torch.zeros(2, 2, 16, 1, dtype=torch.float64)
    for i in range(16):
        row = weights[..., i, : i + 1]
        stats[..., i, 0] = {
            "topk": lambda: row.sort(dim=-1, descending=True).values[..., :3].sum(-1),
            "max": lambda: row.max(dim=-1).values,
            "entropy": lambda: -(row * row.log()).sum(-1) / log(max(i + 1, 2)),
            "rms": lambda: row.square().mean(-1).sqrt(),
        }[mode]()
    gating = attn.gating
    gate = (gating.gate_scale[:, None, None] * stats + gating.gate_bias[:, None, None]).sigmoid()
    factor = 0.8 + 0.2 * gate
    wanted = factor * (weights @ v) if apply == "output" else spread(scores * factor) @ v
    torch.testing.assert_close(call(attn, x), out(attn, wanted), **TOLERANCE)


def test_cross_token_gate_starts_near_one_and_may_average_heads():
    weights = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]]])
    gate = make("GPT2_RACT", perturbed=False, ct_mode="max").h[0].attn.gating.float()
    assert ((gate.gate(weights) > 0.9) & (gate.gate(weights) < 1)).all()
    gate.head_average = True
    assert torch.equal(gate.gate(weights)[:, 0], gate.gate(weights)[:, 1])


def test_a_rows_length_is_no_signal():
    """Uniform weights have entropy 1 and an rms of 1 over the number of keys, at any length."""
    uniform = torch.ones(16, 16).tril() / torch.arange(1, 17)[:, None]
    assert torch.allclose(statistic(uniform, "entropy", 3)[1:], torch.ones(15, 1))
    assert torch.allclose(statistic(uniform, "rms", 3)[:, 0], 1 / torch.arange(1, 17))


@pytest.mark.parametrize("mode", ["topk", "max", "entropy", "rms"])
@pytest.mark.parametrize("apply", ["output", "weights"])
def test_hidden_tokens_send_no_infinity_back(mode, apply):
    """Minus infinity times a gate, and w log w at weight 0, have no finite slope."""
    model = make("GPT2_RACT", ct_mode=mode, ct_apply=apply)
    model(tokens(), tokens())[1].backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_statistics_may_be_detached():
    def reached(**options):
        model = make("GPT2_RACT", ct_apply="output", **options)
        weights = torch.rand(1, 2, 4, 4, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(
            model.h[0].attn.gating.gate(weights).sum(), weights, allow_unused=True
        )
        return gradient is not None

    assert reached() and not reached(ct_detach_stats=True)


@torch.no_grad()
def test_output_gate(x):
    attn = layer_of("GPT2_GATE")
    q, k, v = roles(attn, x)
    merged = (spread(both(q, k)[0]) @ v).transpose(1, 2).flatten(2)
    wanted = attn.c_proj(merged * attn.output.c_gate(x).sigmoid())
    torch.testing.assert_close(call(attn, x), wanted, **TOLERANCE)


@torch.no_grad()
def test_latent(x):
    attn = layer_of("GPT2_MLA")
    latent = attn.source.to_latent["latent"](x)
    k, v = (heads(part) for part in attn.source.from_latent["latent"](latent).chunk(2, dim=-1))
    wanted = spread(both(heads(attn.source.c_q(x)), k)[0]) @ v
    torch.testing.assert_close(call(attn, x), out(attn, wanted), **TOLERANCE)


@torch.no_grad()
def test_two_latents_with_a_splice_each(x):
    attn = layer_of("GPT2_MLA_KV2")
    source = attn.source
    rebuilt = []
    for name, codec in zip(("latent", "value_latent"), attn.codecs, strict=True):
        scale = F.softplus(codec.transform.scale)
        moved = source.to_latent[name](x) * scale + codec.transform.shift
        code = moved @ codec.encoder.weight.T
        assert code.shape[-1] == 6
        latent = (code @ codec.decoder.weight.T - codec.transform.shift) / scale
        rebuilt.append(heads(source.from_latent[name](latent)))
    wanted = spread(both(heads(source.c_q(x)), rebuilt[0])[0]) @ rebuilt[1]
    torch.testing.assert_close(call(attn, x), out(attn, wanted), **TOLERANCE)


@torch.no_grad()
def test_decoupled_rope_by_complex_numbers(x):
    attn = layer_of("GPT2_MLA_ROPE")
    source, rope = attn.source, attn.source.rope

    def turned(flat):
        pairs = torch.complex(*flat.chunk(2, dim=-1))
        angles = torch.arange(16)[:, None] * 10000.0 ** (-torch.arange(0, 4, 2).double() / 4)
        spun = pairs * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([spun.real, spun.imag], dim=-1)

    latent = source.to_latent["latent"](x)
    k, v = (heads(part) for part in source.from_latent["latent"](latent).chunk(2, dim=-1))
    *rope_q, rope_k = rope.c_qk(x).split(4, dim=-1)
    rope_q = torch.stack([turned(head) for head in rope_q], dim=1)
    q = heads(source.c_q(x))
    scores = (q @ k.mT + rope_q @ turned(rope_k)[:, None].mT) / sqrt(8 + 4)
    torch.testing.assert_close(call(attn, x), out(attn, spread(scores) @ v), **TOLERANCE)


@pytest.mark.parametrize(
    "name", ["GPT2_MLA", "GPT2_MLA_KV", "GPT2_MLA_ROPE_KV", "GPT2_MLA_RAMIX_KV"]
)
def test_decoding_absorbs_and_expands_alike(name, monkeypatch):
    """The same chunks through both paths."""
    from assay.models.gpt2.parts.mla import LatentProjection

    model, idx, decoded = make(name), tokens(), []
    for absorbs in (True, False):
        monkeypatch.setattr(LatentProjection, "_pays_to_absorb", lambda self, new, a=absorbs: a)
        decoded.append(decode(model, idx, [4, 1, 1, 10]))
    torch.testing.assert_close(*decoded, **TOLERANCE)


def test_absorbing_is_chosen_where_it_saves_multiplications():
    source = make("GPT2_MLA").h[0].attn.source
    source.latent_width, source.head_dim = 256, 64
    assert source._pays_to_absorb(1) and source._pays_to_absorb(85)
    assert not source._pays_to_absorb(86)
