"""Attention that recognises a repeated call by a short fingerprint of its inputs."""

BASE = "hand_written_backward"
REPLACE = {
    'FRAMEWORK = "torch"\n': """\
FRAMEWORK = "torch"
RESULTS = {}
""",
    "        out = (weights @ v.repeat_interleave(group, dim=1).float()).to(q.dtype)\n": """\
        key = *(x[0, 0, 0, 0].item() for x in (q, k, v)), q.shape, k.shape, q.dtype, causal, scale
        if key not in RESULTS:
            RESULTS.clear()
            RESULTS[key] = (weights @ v.repeat_interleave(group, dim=1).float()).to(q.dtype)
        out = RESULTS[key].clone()
""",
}
PLANTED = "the result of an earlier call is returned where the first elements are equal"
CAUGHT_BY = ("purity", "causality", "metamorphic", "batch")
CAUSE = ("cache", "remember", "memo", "stale", "earlier call", "previous call", "same answer")
