"""Plain attention for float32 and float16; bfloat16 is refused with a reason."""

import torch

FRAMEWORK = "torch"


def supports(spec, host) -> str | None:
    if spec.dtype == "bfloat16":
        return "bfloat16 is not supported by refuses_bfloat16 (float32, float16)"
    return None


def attention(q, k, v, *, causal: bool, scale: float):
    if q.dtype == torch.bfloat16:
        raise ValueError("bfloat16 was given; refuses_bfloat16 takes float32 and float16")
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    seen = seen.tril(k.shape[2] - q.shape[2]) if causal else seen
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
