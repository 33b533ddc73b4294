"""Positions in a class of their own, zero until the general pass names the class and draws them."""

BASE = "nanogpt"
REPLACE = {
    "class CausalSelfAttention(nn.Module):\n": """\
class Positions(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(config.block_size, config.n_embd))

    def forward(self, pos):
        return self.table[pos]


class CausalSelfAttention(nn.Module):
""",
    "wpe=nn.Embedding(config.block_size, config.n_embd)": "wpe=Positions(config)",
    "    def _init_weights(self, module):\n": """\
    def _init_weights(self, module):
        if isinstance(module, Positions):
            nn.init.normal_(module.table, std=0.02)
""",
}
