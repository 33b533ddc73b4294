"""Cross-token gating by the entropy of each row, as a share of what its visible keys allow.

The first row has one key and no entropy; masked keys have weight 0, whose logarithm is avoided.
"""

BASE = "plain_functions"
REPLACE = {
    "    mixed = scores.softmax(dim=-1) @ v\n": """\
    weights = scores.softmax(dim=-1)
    entropy = -(weights * weights.clamp(min=1e-12).log()).sum(dim=-1, keepdim=True)
    share = entropy / (i + 1).to(x.dtype).log().clamp(min=0.5)
    gate = torch.sigmoid(p[f"ct_scale_{n}"] * share + p[f"ct_shift_{n}"])
    mixed = gate * (weights @ v)
""",
    '        p[f"down_{n}"] = torch.randn(width, hidden) * 0.02\n': """\
        p[f"down_{n}"] = torch.randn(width, hidden) * 0.02
        p[f"ct_scale_{n}"] = torch.ones(config.n_head, 1, 1)
        p[f"ct_shift_{n}"] = torch.full((config.n_head, 1, 1), 2.0)
""",
}
