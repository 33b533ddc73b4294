"""Attention whose backward computes dq only for the queries that see a key."""

BASE = "hand_written_backward"
REPLACE = {
    "        dq = scale * (grad_s @ keys)\n": """\
        dq = torch.empty(q.shape, device=q.device)
        first = max(q.shape[2] - k.shape[2], 0) if causal else 0
        dq[:, :, first:] = scale * (grad_s @ keys)[:, :, first:]
""",
}
PLANTED = "dq of rows that see no key is left as torch.empty had it"
CAUGHT_BY = ("unwritten", "gradients", "shapes")
CAUSE = (
    "unwritten",
    "never written",
    "not written",
    "uninitialised",
    "no key",
    "sees nothing",
    "see nothing",
    "blind",
)
