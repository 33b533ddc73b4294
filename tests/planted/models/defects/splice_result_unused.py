"""A GPT-2 with multi-head latent attention and a splice.

Re-enacts a reconstruction that is computed and then not the tensor that goes on.
"""

BASE = "latents_cached"
REPLACE = {
    "        kv = self.from_kv_latent(self.kvsplice.expand(self.kvsplice.compress(z)))\n": """\
        restored = self.kvsplice.expand(self.kvsplice.compress(z))
        assert restored.shape == z.shape
        kv = self.from_kv_latent(z)
""",
}
PLANTED = "the spliced latent is computed and dropped"
CAUGHT_BY = ("splice", "gradients")
CAUSE = ("splice", "codec", "compress", "expand")
