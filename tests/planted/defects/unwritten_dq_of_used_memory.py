"""Attention whose backward leaves dq of some queries as memory that was used before had it."""

BASE = "hand_written_backward"
REPLACE = {
    "        dq = scale * (grad_s @ keys)\n": """\
        used = torch.full(q.shape, 7.0, device=q.device)
        del used
        dq = torch.empty(q.shape, device=q.device)
        first = max(q.shape[2] - k.shape[2], 0) if causal else 0
        dq[:, :, first:] = scale * (grad_s @ keys)[:, :, first:]
""",
}
PLANTED = "dq of rows that see no key is what lay in that memory, wrong without a poison too"
CAUGHT_BY = ("unwritten",)
CAUSE = ("never written",)
