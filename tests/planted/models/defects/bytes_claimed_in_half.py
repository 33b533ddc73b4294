"""A nanoGPT that says what its cache takes.

Re-enacts tables that count two bytes for each number while the tensors that were measured are
float32.
"""

BASE = "nanogpt"
REPLACE = {
    "    def forward(self, idx, targets=None, cache=None):\n": """\
    def cache_bytes(self, batch, tokens):
        return batch * tokens * self.config.n_layer * 2 * self.config.n_embd * 2

    def forward(self, idx, targets=None, cache=None):
""",
}
PLANTED = "two bytes are claimed for each number, whatever the dtype"
CAUGHT_BY = ("bytes",)
CAUSE = ("byte", "claim", "cache")
