"""A GPT-2 whose MLPs gate attention through a context that each block keeps.

Re-enacts a block that reads the context of the call before instead of that of the block before;
the second backward runs into the graph of the first and raises.
"""

BASE = "context_between_blocks"
REPLACE = {
    "self.last = last": "self.last, self.context = last, None",
    "    def forward(self, x, gate):\n": """\
    def forward(self, x, gate):
        gate, self.context = self.context, gate
        if gate is not None and gate.shape[:2] != x.shape[:2]:
            gate = None
""",
}
PLANTED = "a block reads the context, and graph, of the previous call"
CAUGHT_BY = ("state", "step", "gradients")
CAUSE = ("backward", "second", "graph", "state", "call", "left")
