"""Positions as in minGPT: a parameter of the model itself, zero until the general pass draws it."""

BASE = "nanogpt"
REPLACE = {
    "                wpe=nn.Embedding(config.block_size, config.n_embd),\n": "",
    "        self.apply(self._init_weights)\n": """\
        self.wpe = nn.Parameter(torch.zeros(config.block_size, config.n_embd))
        self.apply(self._init_weights)
""",
    "    def _init_weights(self, module):\n": """\
    def _init_weights(self, module):
        if module is self:
            nn.init.normal_(self.wpe, std=0.02)
""",
    "self.transformer.wpe(pos)": "self.wpe[pos]",
}
