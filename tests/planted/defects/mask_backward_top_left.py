"""Causal attention with a hand-written backward that has its own idea of the mask."""

BASE = "hand_written_backward"
REPLACE = {
    "keys, causal, scale), grad": "keys, causal, scale, diagonal=0), grad",
    "def _weights(q, keys, causal, scale):": "def _weights(q, keys, causal, scale, diagonal=None):",
    "        seen = seen.tril(keys.shape[2] - q.shape[2])": """\
        diagonal = keys.shape[2] - q.shape[2] if diagonal is None else diagonal
        seen = seen.tril(diagonal)""",
}
PLANTED = "the mask of the backward is aligned top-left, that of the forward bottom-right"
CAUGHT_BY = ("gradients", "shapes")
CAUSE = "the causal mask of the backward is aligned top-left"
