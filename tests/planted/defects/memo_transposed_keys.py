"""Attention that keeps the transposed keys, which a cache hands in again and again."""

BASE = "hand_written_backward"
REPLACE = {
    'FRAMEWORK = "torch"\n': """\
FRAMEWORK = "torch"
KEYS = {}
""",
    "q, k.repeat_interleave(group, dim=1), causal": "q, _remembered(k, group), causal",
    "def _weights(": """def _remembered(k, group):
    place = k.data_ptr(), k.shape, k.stride(), k.dtype, group
    if place not in KEYS:
        KEYS.clear()
        KEYS[place] = k.repeat_interleave(group, dim=1).transpose(-1, -2).contiguous()
    return KEYS[place].transpose(-1, -2)


def _weights(""",
}
PLANTED = "the transposed keys are remembered by address"
CAUGHT_BY = ("purity", "accuracy", "metamorphic", "causality")
CAUSE = ("cache", "remember", "memo", "stale", "earlier call", "previous call", "same answer")
