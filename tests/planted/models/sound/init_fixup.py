"""A nanoGPT with the start of Fixup: what reads the residual stream is smaller by the root of the
depth, what is added to it is zero."""

BASE = "nanogpt"
REPLACE = {
    "                nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))\n": """\
                nn.init.zeros_(p)
            elif name.endswith(("c_fc.weight", "c_attn.weight")):
                p.data.div_(config.n_layer**0.5)
""",
}
