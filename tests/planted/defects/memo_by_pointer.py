"""Attention that recognises tensors it has just seen by their address."""

BASE = "hand_written_backward"
REPLACE = {
    'FRAMEWORK = "torch"\n': """\
FRAMEWORK = "torch"
RESULTS = {}
""",
    "        out = (weights @ v.repeat_interleave(group, dim=1).float()).to(q.dtype)\n": """\
        key = *(x.data_ptr() for x in (q, k, v)), q.shape, k.shape, q.dtype, causal, scale
        if key not in RESULTS:
            RESULTS.clear()
            RESULTS[key] = (weights @ v.repeat_interleave(group, dim=1).float()).to(q.dtype)
        out = RESULTS[key].clone()
""",
}
PLANTED = "the result is remembered by address, and is stale after a change in place"
CAUGHT_BY = ("purity", "accuracy", "metamorphic")
CAUSE = ("cache", "remember", "memo", "stale", "earlier call", "previous call", "same answer")
