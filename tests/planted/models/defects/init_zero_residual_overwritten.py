"""A nanoGPT with an adapter beside each MLP that should add nothing at first.

Re-enacts out_residual, zeroed in its own constructor and then drawn anew by model.apply.
"""

BASE = "nanogpt"
REPLACE = {
    "class Block(nn.Module):\n": '''\
class Adapter(nn.Module):
    """A narrow detour; its last layer is zero, so at first it adds nothing."""

    def __init__(self, width):
        super().__init__()
        self.narrow = nn.Linear(width, 4, bias=False)
        self.wide = nn.Linear(4, width, bias=False)
        nn.init.zeros_(self.wide.weight)

    def forward(self, x):
        return self.wide(F.gelu(self.narrow(x)))


class Block(nn.Module):
''',
    "        self.mlp = MLP(config)\n": """\
        self.mlp = MLP(config)
        self.adapter = Adapter(config.n_embd)
""",
    "        x = x + self.mlp(self.ln_2(x))\n": """\
        h = self.ln_2(x)
        x = x + self.mlp(h) + self.adapter(h)
""",
}
PLANTED = "the zero start of the adapter is overwritten by apply"
CAUGHT_BY = ("init",)
CAUSE = ("adapter", "init", "overwrit", "wide")
