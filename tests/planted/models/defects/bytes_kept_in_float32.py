"""A nanoGPT that keeps keys and values in float32, for accuracy.

Re-enacts a claim in the dtype of the parameters: right in float32, half of the truth in bfloat16.
"""

BASE = "cache_counted"
REPLACE = {
    """\
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
""": """\
            k = torch.cat([past[0].to(k.dtype), k], dim=2)
            v = torch.cat([past[1].to(v.dtype), v], dim=2)
""",
    "return self.c_proj(y), (k, v)": "return self.c_proj(y), (k.float(), v.float())",
}
PLANTED = "the cache stays float32 when the model is bfloat16"
CAUGHT_BY = ("bytes",)
CAUSE = ("byte", "claim", "cache")
