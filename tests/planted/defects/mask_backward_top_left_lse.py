"""FlashAttention-2 by hand, whose backward takes the weights from the forward's LSE."""

BASE = "flash2_function"
REPLACE = {
    "scores, seen = _scores(q, keys, causal, scale)": (
        "scores, seen = _scores(q, keys, causal, scale, diagonal=0)"
    ),
    "def _scores(q, keys, causal, scale):": "def _scores(q, keys, causal, scale, diagonal=None):",
    "    seen = seen.tril(keys.shape[2] - q.shape[2]) if causal else seen\n": """\
    diagonal = keys.shape[2] - q.shape[2] if diagonal is None else diagonal
    seen = seen.tril(diagonal) if causal else seen
""",
}
PLANTED = "the mask of the backward is aligned top-left, that of the forward bottom-right"
CAUGHT_BY = ("shapes", "gradients")
CAUSE = "the causal mask of the backward is aligned top-left"
SLOW = True  # another of its kind is quick
