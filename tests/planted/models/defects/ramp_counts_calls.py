"""A GPT-2 with gates between blocks that are faded in over the first hundred steps.

Re-enacts a coupling scale that counts calls in training mode on a plain integer: two equal calls
differ, and a restored checkpoint starts the ramp again.
"""

BASE = "context_between_blocks"
REPLACE = {
    "        self.lm_head.weight = self.wte.weight\n": """\
        self.lm_head.weight = self.wte.weight
        self.calls = 0
""",
    "        pos = torch.arange(idx.size(1), device=idx.device)\n": """\
        pos = torch.arange(idx.size(1), device=idx.device)
        self.calls += self.training
        coupling = min(1.0, self.calls / 100)
""",
    "            x, gate = block(x, gate)\n": """\
            x, gate = block(x, gate)
            if gate is not None:
                gate = 1 - coupling * gate
""",
}
PLANTED = "each training call moves the coupling; no checkpoint knows of it"
CAUGHT_BY = ("state", "checkpoint")
CAUSE = ("state", "call", "left", "again", "checkpoint", "twice")
