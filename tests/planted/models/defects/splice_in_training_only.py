"""A GPT-2 with multi-head latent attention and a splice as a training-time regulariser.

Re-enacts a codec behind `if self.training`: what is evaluated was never compressed.
"""

BASE = "latents_cached"
REPLACE = {
    "        kv = self.from_kv_latent(self.kvsplice.expand(self.kvsplice.compress(z)))\n": """\
        spliced = z
        if self.training:
            spliced = self.kvsplice.expand(self.kvsplice.compress(z))
        kv = self.from_kv_latent(spliced)
""",
}
PLANTED = "evaluation does not go through the splice"
CAUGHT_BY = ("modes", "splice")
CAUSE = ("train", "eval")
