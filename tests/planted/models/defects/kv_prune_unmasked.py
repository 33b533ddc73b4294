"""A GPT-2 that attends to the 38.2% most important keys only.

Re-enacts a pruned attention that masks once, to find what is important, and then takes the
softmax of the unmasked scores of the keys that it kept.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    """\
        att = att.masked_fill(~self.mask[:t, :t], float("-inf"))
        att = F.softmax(att, dim=-1)
        y = self.drop(att) @ v
""": """\
        masked = att.masked_fill(~self.mask[:t, :t], float("-inf"))
        importance = F.softmax(masked, dim=-1).detach().sum(dim=2)
        kept = importance.topk(max(1, round(0.382 * t)), dim=-1).indices
        att = att.gather(3, kept[:, :, None].expand(-1, -1, t, -1))
        v = v.gather(2, kept[..., None].expand(-1, -1, -1, v.size(-1)))
        y = self.drop(F.softmax(att, dim=-1)) @ v
""",
}
PLANTED = "the scores of the kept keys are not masked"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
