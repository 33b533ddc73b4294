"""Keys split into blocks of 100, each with its own softmax, merged by their log-sum-exp."""

import torch

FRAMEWORK = "torch"
SPLIT = 100


def attention(q, k, v, *, causal: bool, scale: float):
    group, keys = q.shape[1] // k.shape[1], k.shape[2]
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    rows = q.float()  # once, so that autograd adds up dq in float32
    seen = torch.ones(q.shape[2], keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - q.shape[2])
    starts = range(0, keys, SPLIT)
    parts = [_partial(rows, k, v, seen, slice(s, s + SPLIT), scale) for s in starts]
    lse = torch.stack([part[1] for part in parts])  # [splits, B, H, M, 1]
    shares = (lse - lse.detach().amax(dim=0)).exp()
    shares = shares / shares.sum(dim=0)
    return sum(share * out for share, (out, _) in zip(shares, parts, strict=True)).to(q.dtype)


def _partial(q, k, v, seen, split, scale):
    """Output over one split of the keys, and its log-sum-exp; -1e30 where a row sees none."""
    scores = scale * (q @ k[:, :, split].transpose(-1, -2))
    scores = scores.masked_fill(~seen[:, split], -1e30)
    weights = scores.softmax(dim=-1).masked_fill(~seen[:, split], 0.0)
    lse = scores.logsumexp(dim=-1, keepdim=True)
    lse = lse.masked_fill(~seen[:, split].any(dim=-1, keepdim=True), -1e30)
    return weights @ v[:, :, split], lse
