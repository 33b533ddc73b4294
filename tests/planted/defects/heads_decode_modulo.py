"""Attention with a path of its own for decoding, where there is one query."""

BASE = "eager_plain"
REPLACE = {
    "    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))\n": """\
    if queries == 1:
        return _decode(q.float(), k.float(), v.float(), group, scale).to(q.dtype)
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
""",
    "def attention(": '''def _decode(q, k, v, group, scale):
    """The newest query sees every key, so nothing is masked; a group's heads go together."""
    rows = q.reshape(q.shape[0], group, k.shape[1], q.shape[3]).transpose(1, 2)  # [B, G, R, D]
    weights = (scale * (rows @ k.transpose(-1, -2))).softmax(dim=-1)
    return (weights @ v).transpose(1, 2).reshape(q.shape)


def attention(''',
}
PLANTED = "with one query, query head h reads kv head h % kv_heads"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = ("kv head", "head group", "query heads", "grouped", "heads", "one query", "m = 1", "m=1")
SLOW = True
