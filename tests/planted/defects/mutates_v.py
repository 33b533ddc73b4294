"""Attention for 16 queries at a time, from the last to the first, clearing values on the way."""

BASE = "hand_written_backward"
REPLACE = {
    "        out = (weights @ v.repeat_interleave(group, dim=1).float()).to(q.dtype)\n": """\
        out, offset = torch.empty_like(q), k.shape[2] - q.shape[2]
        values = v if group == 1 else v.repeat_interleave(group, dim=1)
        values = values.float().contiguous()
        for start in reversed(range(0, q.shape[2], 16)):
            rows = slice(start, start + 16)
            if causal:  # what is not visible from here on is not needed any more
                values[:, :, max(start + 16 + offset, 0) :] = 0.0
            out[:, :, rows] = (weights[:, :, rows] @ values).to(q.dtype)
""",
}
PLANTED = "values that no remaining query sees are zeroed in v itself"
CAUGHT_BY = ("purity", "gradients", "determinism", "accuracy")
CAUSE = ("modif", "in place", "in-place", "changed", "changes its input", "overwrit")
