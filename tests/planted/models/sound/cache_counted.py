"""A nanoGPT that says how many bytes its cache takes."""

BASE = "nanogpt"
REPLACE = {
    "    def forward(self, idx, targets=None, cache=None):\n": """\
    def cache_bytes(self, batch, tokens):
        per_token = 2 * self.config.n_embd * self.lm_head.weight.element_size()
        return batch * tokens * self.config.n_layer * per_token

    def forward(self, idx, targets=None, cache=None):
""",
}
