"""A GPT-2 with rotary positions and grouped heads.

Re-enacts keys that are stored after they were repeated for all query heads: the saving of
grouped heads is claimed and not there.
"""

BASE = "rope_grouped_rmsnorm"
REPLACE = {
    "        v = self.wv(x).view(B, T, self.kv_heads, self.d)\n": """\
        v = self.wv(x).view(B, T, self.kv_heads, self.d)
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
""",
    """\
        group = self.heads // self.kv_heads
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
""": """\
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
""",
}
PLANTED = "the cache holds every query head's copy of the keys"
CAUGHT_BY = ("bytes",)
CAUSE = ("byte", "claim", "cache")
