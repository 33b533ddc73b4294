"""Attention of the first sixteen heads; the others are never computed."""

BASE = "eager_plain"
REPLACE = {
    "    return weights.to(v.dtype) @ v": (
        "    out = weights.to(v.dtype) @ v\n"
        "    computed = torch.arange(out.shape[1], device=q.device) < 16\n"
        "    return out * computed[:, None, None].to(out.dtype)"
    )
}
PLANTED = "heads from 16 on are zeros"
CAUGHT_BY = ("shapes",)
CAUSE = "heads from 16 on"
