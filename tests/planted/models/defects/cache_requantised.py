"""A nanoGPT with an int8 cache and one scale for each layer.

Re-enacts a scale that follows the largest number seen so far: each step rounds the whole history
again, and training knew nothing of the rounding.
"""

BASE = "nanogpt"
REPLACE = {
    """\
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
""": """\
            k = torch.cat([past[0].to(k.dtype) * past[2], k], dim=2)
            v = torch.cat([past[1].to(v.dtype) * past[2], v], dim=2)
""",
    "        return self.c_proj(y), (k, v)\n": """\
        scale = torch.maximum(k.abs().amax(), v.abs().amax()) / 127
        codes = ((t / scale).round().to(torch.int8) for t in (k, v))
        return self.c_proj(y), (*codes, scale)
""",
}
PLANTED = "the history is rounded again in each step, with a new scale"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token", "append", "stored", "entries")
