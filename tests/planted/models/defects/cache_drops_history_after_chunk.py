"""A GPT-2 with multi-head latent attention and a spliced latent cache.

Re-enacts a path, taken by chunks only, that hands back the entries of the new tokens without
those that were there before. One token at a time all is well.
"""

BASE = "mla_splice"
REPLACE = {
    "        return self.out_proj(y.transpose(1, 2).reshape(B, T, -1)), code\n": """\
        kept = code if T == 1 else code[:, -T:]
        return self.out_proj(y.transpose(1, 2).reshape(B, T, -1)), kept
""",
}
PLANTED = "a chunk returns a cache without the earlier entries"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token", "chunk", "length", "entries")
