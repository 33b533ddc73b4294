"""Attention; q is scaled where it lies and put back afterwards."""

BASE = "hand_written_backward"
REPLACE = {
    "        weights = _weights(q, k.repeat_interleave(group, dim=1), causal, scale)\n": """\
        weights = _weights(q, k.repeat_interleave(group, dim=1), causal, scale)
        if q.is_contiguous():
            keys = k.repeat_interleave(group, dim=1)
            weights = _weights(q.mul_(scale), keys, causal, 1.0)
            q.div_(scale)
""",
}
PLANTED = "q is scaled in place and divided back, which does not give the same bits"
CAUGHT_BY = ("purity", "determinism")
CAUSE = ("modif", "in place", "in-place", "changed", "changes its input", "overwrit")
