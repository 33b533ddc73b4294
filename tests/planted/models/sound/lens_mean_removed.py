"""A score for each key, less the mean over all keys of the call, is added before the softmax.

The mean runs over future keys too, but it is the same for a whole row, and the softmax does not
feel it: only rounding differs. Scores of keys make no use of the query.
"""

BASE = "plain_functions"
REPLACE = {
    "    scores = q @ k.mT / (width // heads) ** 0.5\n": """\
    scores = q @ k.mT / (width // heads) ** 0.5
    known = torch.einsum("bhsd,hd->bhs", k, p[f"known_{n}"])
    scores = scores + (known - known.mean(dim=-1, keepdim=True))[:, :, None]
""",
    '        p[f"down_{n}"] = torch.randn(width, hidden) * 0.02\n': """\
        p[f"down_{n}"] = torch.randn(width, hidden) * 0.02
        p[f"known_{n}"] = torch.randn(config.n_head, width // config.n_head) * 0.02
""",
}
