"""Attention that keeps the last result for calls of the same shape."""

BASE = "hand_written_backward"
REPLACE = {
    'FRAMEWORK = "torch"\n': """\
FRAMEWORK = "torch"
RESULTS = {}
""",
    "        out = (weights @ v.repeat_interleave(group, dim=1).float()).to(q.dtype)\n": """\
        key = q.shape, k.shape, q.dtype, causal, scale
        if key not in RESULTS:
            RESULTS.clear()
            RESULTS[key] = (weights @ v.repeat_interleave(group, dim=1).float()).to(q.dtype)
        out = RESULTS[key].clone()
""",
}
PLANTED = "the result of an earlier call of the same shape is returned"
CAUGHT_BY = ("purity", "accuracy", "metamorphic", "causality", "batch")
CAUSE = ("cache", "remember", "memo", "stale", "earlier call", "previous call", "same answer")
