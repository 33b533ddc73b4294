"""A GPT-2 with multi-head latent attention and a splice with a straight-through gradient.

Re-enacts a straight-through trick the wrong way round: gradients do reach the codec, but the
value that goes on is the latent that was never compressed.
"""

BASE = "latents_cached"
REPLACE = {
    "        kv = self.from_kv_latent(self.kvsplice.expand(self.kvsplice.compress(z)))\n": """\
        restored = self.kvsplice.expand(self.kvsplice.compress(z))
        kv = self.from_kv_latent(z + (restored - restored.detach()))
""",
}
PLANTED = "the forward value bypasses the splice; only gradients pass it"
CAUGHT_BY = ("splice",)
CAUSE = ("splice", "codec")
