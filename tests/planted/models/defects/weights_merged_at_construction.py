"""A GPT-2 with a spliced latent that merges two projections into one for evaluation.

Re-enacts weights that are merged when the model is made: evaluation goes on with those of the
beginning, whatever is trained or loaded afterwards.
"""

BASE = "mla_splice"
REPLACE = {
    """\
    def forward(self, x, past=None):
        B, T, _ = x.shape
""": """\
    @torch.no_grad()
    def merge(self):
        self.merged = self.from_kv_latent.weight @ self.kvsplice.expand.weight

    def forward(self, x, past=None):
        B, T, _ = x.shape
""",
    "        kv = self.from_kv_latent(self.kvsplice.expand(code))\n": """\
        if self.training:
            kv = self.from_kv_latent(self.kvsplice.expand(code))
        else:
            kv = F.linear(code, self.merged.to(code), self.from_kv_latent.bias)
""",
    "                nn.init.normal_(p, std=0.02)\n": """\
                nn.init.normal_(p, std=0.02)
        for block in self.blocks:
            block.attn.merge()
""",
}
PLANTED = "evaluation uses projections merged before training"
CAUGHT_BY = ("modes", "checkpoint")
CAUSE = ("eval", "train", "checkpoint", "restored", "logits")
