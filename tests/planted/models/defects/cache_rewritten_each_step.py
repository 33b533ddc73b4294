"""A GPT-2 with rotary positions counted back from the newest token, which is number 0.

Re-enacts a cache whose entries are all turned on by one position with each new token: logits
are right, the history is written anew in each step, and in low precision it drifts.
"""

BASE = "rope_grouped_rmsnorm"
REPLACE = {
    '''\
def rotate(x, first):
    """Rotary positions for x [B, T, heads, d], whose first token is number `first`."""
''': '''\
def rotate(x, places):
    """Rotary positions for x [B, T, heads, d], whose tokens stand at `places` [T]."""
''',
    "angle = torch.arange(first, first + x.shape[1], device=x.device)[:, None] * rate": (
        "angle = places[:, None] * rate"
    ),
    """\
        q = rotate(self.wq(x).view(B, T, self.heads, self.d), first)
        k = rotate(self.wk(x).view(B, T, self.kv_heads, self.d), first)
""": """\
        places = torch.arange(1 - T, 1, device=x.device)
        q = rotate(self.wq(x).view(B, T, self.heads, self.d), places)
        k = rotate(self.wk(x).view(B, T, self.kv_heads, self.d), places)
""",
    '            k, v = torch.cat([past["k"], k], dim=1), torch.cat([past["v"], v], dim=1)\n': """\
            older = rotate(past["k"], places.new_full((first,), -T))
            k, v = torch.cat([older, k], dim=1), torch.cat([past["v"], v], dim=1)
""",
}
PLANTED = "the keys in the cache are rotated again in each step"
CAUGHT_BY = ("cached",)
CAUSE = ("append", "stored", "entries", "chang", "rewritten")
