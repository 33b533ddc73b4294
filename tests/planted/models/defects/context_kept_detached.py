"""A GPT-2 whose MLPs gate attention through a context that each block keeps.

Re-enacts the same, with a detach() that silences the error: logits depend on the batch before,
and the gate itself is never trained.
"""

BASE = "context_between_blocks"
REPLACE = {
    "self.last = last": "self.last, self.context = last, None",
    "    def forward(self, x, gate):\n": """\
    def forward(self, x, gate):
        gate, self.context = self.context, None if gate is None else gate.detach()
        if gate is not None and gate.shape[:2] != x.shape[:2]:
            gate = None
""",
}
PLANTED = "logits depend on the previous batch"
CAUGHT_BY = ("state", "gradients")
CAUSE = ("state", "call", "batch", "left", "gate_up", "gate_down")
