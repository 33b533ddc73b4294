"""A GPT-2 with a fixed random projection beside each MLP.

Re-enacts state in a plain attribute: the projection is drawn for each new model and is in no
checkpoint, so a restored model is another one.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.mlp = FeedForward(config)\n": """\
        self.mlp = FeedForward(config)
        self.mixing = torch.randn(config.n_embd, config.n_embd) / config.n_embd**0.5
""",
    "        x = x + self.mlp(self.ln2(x))\n": """\
        h = self.ln2(x)
        x = x + self.mlp(h) + 0.5 * h @ self.mixing.to(h)
""",
}
PLANTED = "a random tensor in a plain attribute is lost by a checkpoint"
CAUGHT_BY = ("checkpoint",)
CAUSE = ("checkpoint", "restored", "saved", "logits", "load")
