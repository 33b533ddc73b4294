"""A GPT-2 with multi-head latent attention and a splice that is switched on for evaluation.

Re-enacts a codec that nothing was trained with: it keeps its initial values.
"""

BASE = "latents_cached"
REPLACE = {
    "        kv = self.from_kv_latent(self.kvsplice.expand(self.kvsplice.compress(z)))\n": """\
        spliced = z if self.training else self.kvsplice.expand(self.kvsplice.compress(z))
        kv = self.from_kv_latent(spliced)
""",
}
PLANTED = "training does not go through the splice"
CAUGHT_BY = ("splice",)
CAUSE = ("in training",)
