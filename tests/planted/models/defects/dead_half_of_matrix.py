"""A GPT-2 with rotary positions, grouped heads and a gated MLP.

Re-enacts half of a fused projection that is computed and never used: the parameter has a
gradient, so only a look inside the tensor shows it.
"""

BASE = "rope_grouped_rmsnorm"
REPLACE = {
    """\
        gate, up = self.w13(x).chunk(2, dim=-1)
        return self.w2(F.silu(gate) * up)
""": """\
        gate, _ = self.w13(x).chunk(2, dim=-1)
        return self.w2(F.silu(gate))
""",
}
PLANTED = "half of w13 never enters the result"
CAUGHT_BY = ("gradients",)
CAUSE = ("w13",)
