"""A GPT-2 that keeps the keys with most attention mass per query that could see them.

Re-enacts importance as the column mass of the attention matrix: which keys an early query may
use is decided by what later queries looked at. The mask is right, and no gradient shows it.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        att = F.softmax(att, dim=-1)\n": """\
        att = F.softmax(att, dim=-1)
        exposure = torch.arange(t, 0, -1, device=x.device)
        importance = att.detach().sum(dim=2) / exposure
        kept = importance.topk(max(1, round(0.382 * t)), dim=-1).indices
        keep = torch.zeros_like(importance).scatter(2, kept, 1.0)[:, :, None]
        keep = keep.maximum(torch.eye(t, device=x.device, dtype=x.dtype))
        att = att * keep / (att * keep).sum(-1, keepdim=True)
""",
}
PLANTED = "keys are kept by the attention that later queries pay to them"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
