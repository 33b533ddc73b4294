"""Layers that start as nothing: each branch is multiplied by a learned scalar that begins at 0.

In the first step all weights inside the branches have a gradient of exactly zero.
"""

BASE = "alibi_parallel"
REPLACE = {
    """\
        self.attn_scale = nn.Parameter(torch.tensor(1.0))
        self.mlp_scale = nn.Parameter(torch.tensor(1.0))
""": """\
        self.attn_scale = nn.Parameter(torch.tensor(0.0))
        self.mlp_scale = nn.Parameter(torch.tensor(0.0))
""",
}
