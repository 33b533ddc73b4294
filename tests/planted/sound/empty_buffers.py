"""Takes all its buffers from torch.empty and writes every element before it is read."""

import torch

FRAMEWORK = "torch"


class Buffered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale):
        out, weights = torch.empty_like(q), torch.empty(*q.shape[:3], k.shape[2], device=q.device)
        offset = k.shape[2] - q.shape[2]
        for start in range(0, q.shape[2], 64):
            rows = slice(start, start + 64)
            scores = scale * (q[:, :, rows].float() @ k.float().transpose(-1, -2))
            seen = torch.ones_like(scores[0, 0], dtype=torch.bool)
            seen = seen.tril(start + offset) if causal else seen
            part = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
            weights[:, :, rows] = part
            out[:, :, rows] = part @ v.float()
        ctx.save_for_backward(q, k, v, weights)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, weights = ctx.saved_tensors
        dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
        grad_p = grad.float() @ v.float().transpose(-1, -2)
        grad_s = weights * (grad_p - (weights * grad_p).sum(dim=-1, keepdim=True)) * ctx.scale
        dq.copy_(grad_s @ k.float())
        dk.copy_(grad_s.transpose(-1, -2) @ q.float())
        dv.copy_(weights.transpose(-1, -2) @ grad.float())
        return dq, dk, dv, None, None


def attention(q, k, v, *, causal: bool, scale: float):
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    return Buffered.apply(q, k, v, causal, scale)
