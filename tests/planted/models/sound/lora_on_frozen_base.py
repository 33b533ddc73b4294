"""A nanoGPT with low-rank additions to frozen projections: B starts at 0, the base never moves.

A has no gradient in the first step, and what is frozen asks for none. The model's own init
passes by what LoRA has set.
"""

BASE = "nanogpt"
REPLACE = {
    "class CausalSelfAttention(nn.Module):\n": """\
class LoRALinear(nn.Module):
    def __init__(self, fan_in, fan_out, bias, rank=2):
        super().__init__()
        self.base = nn.Linear(fan_in, fan_out, bias=bias)
        self.A = nn.Parameter(torch.randn(rank, fan_in) * fan_in**-0.5)
        self.B = nn.Parameter(torch.zeros(fan_out, rank))
        self.base.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + x @ self.A.T @ self.B.T


class CausalSelfAttention(nn.Module):
""",
    "self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)": (
        "self.c_attn = LoRALinear(config.n_embd, 3 * config.n_embd, bias=config.bias)"
    ),
}
