"""A GPT-2 with rotary positions, grouped heads and RMSNorm.

Re-enacts rotary angles that restart at 0 for the new tokens of a cached call, while the keys in
the cache were rotated by their own positions.
"""

BASE = "rope_grouped_rmsnorm"
REPLACE = {
    """\
        q = rotate(self.wq(x).view(B, T, self.heads, self.d), first)
        k = rotate(self.wk(x).view(B, T, self.kv_heads, self.d), first)
""": """\
        q = rotate(self.wq(x).view(B, T, self.heads, self.d), 0)
        k = rotate(self.wk(x).view(B, T, self.kv_heads, self.d), 0)
""",
}
PLANTED = "rotary positions of a cached call start at 0"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token")
