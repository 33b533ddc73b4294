"""Attention; scaling q where it lies saves a copy."""

BASE = "hand_written_backward"
REPLACE = {
    "        group = q.shape[1] // k.shape[1]\n": """\
        q = q.mul_(scale) if q.is_contiguous() else q * scale
        group = q.shape[1] // k.shape[1]
""",
    "dim=1), causal, scale)": "dim=1), causal, 1.0)",
    "keys, causal, scale), grad": "keys, causal, 1.0), grad",
    "dk = scale * (": "dk = (",
}
PLANTED = "q is scaled in place"
CAUGHT_BY = ("purity", "determinism")
CAUSE = ("modif", "in place", "in-place", "changed", "changes its input", "overwrit")
