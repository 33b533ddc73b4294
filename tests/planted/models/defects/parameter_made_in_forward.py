"""A GPT-2 with ALiBi, parallel blocks and a gain whose size is found in the first call.

Re-enacts a parameter created lazily: an optimizer made before never sees it, and a new model has
no place for it when a checkpoint is loaded.
"""

BASE = "alibi_parallel"
REPLACE = {
    "        logits = F.linear(self.final(x), self.readout)\n": """\
        x = self.final(x)
        if not hasattr(self, "gain"):
            self.gain = nn.Parameter(1 + 0.1 * torch.randn_like(x[0, 0]))
        logits = F.linear(x * self.gain, self.readout)
""",
}
PLANTED = "a parameter is created by the first forward"
CAUGHT_BY = ("checkpoint",)
CAUSE = ("gain", "unexpected", "missing", "key", "parameter")
