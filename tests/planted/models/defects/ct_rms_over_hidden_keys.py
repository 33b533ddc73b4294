"""A GPT-2 with cross-token gating by the root mean square of each row of attention.

Re-enacts the RMS statistic averaged over all columns, masked ones included: the gate of a row
depends on how much padding or future follows it.
"""

BASE = "ct_entropy"
REPLACE = {
    """\
    entropy = -(weights * weights.clamp(min=1e-12).log()).sum(dim=-1, keepdim=True)
    share = entropy / (i + 1).to(x.dtype).log().clamp(min=0.5)
    gate = torch.sigmoid(p[f"ct_scale_{n}"] * share + p[f"ct_shift_{n}"])
""": """\
    rms = weights.square().mean(dim=-1, keepdim=True).sqrt()
    gate = torch.sigmoid(p[f"ct_scale_{n}"] * rms + p[f"ct_shift_{n}"])
""",
}
PLANTED = "the row statistic counts the hidden keys"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token")
