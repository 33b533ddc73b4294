"""Causal attention whose backward lets queries from 384 on see the key after theirs too."""

BASE = "hand_written_backward"
REPLACE = {
    "        weights, grad = _weights(q, keys, causal, scale), grad.float()\n": (
        "        weights, grad = _weights(q, keys, causal, scale), grad.float()\n"
        "        scores = scale * (q.float() @ keys.transpose(-1, -2))\n"
        "        shift = keys.shape[2] - q.shape[2] + 1\n"
        "        late = torch.arange(q.shape[2])[:, None] >= 384\n"
        "        next_key = torch.ones_like(scores).triu(shift).tril(shift) * late * causal\n"
        "        weights = weights + next_key * 1e-3 * scores.sigmoid()\n"
    )
}
PLANTED = "in the backward, queries from 384 on see one future key"
CAUGHT_BY = ("causality", "shapes")
CAUSE = ("backward", "dk", "dv", "dq")
