"""Scores added up over the head dimension, 16 elements at a time."""

BASE = "eager_plain"
REPLACE = {
    "    scores = scale * (q.float() @ k.float().transpose(-1, -2))\n": """\
    scores = torch.zeros(*q.shape[:3], keys, device=q.device)
    for chunk in range(q.shape[3] // 16):
        part = slice(16 * chunk, 16 * chunk + 16)
        scores = scores + scale * (q[..., part].float() @ k[..., part].float().transpose(-1, -2))
""",
}
PLANTED = "a head dimension that is no multiple of 16 loses its last elements in the scores"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = ("head dim", "head_dim", "dimension")
