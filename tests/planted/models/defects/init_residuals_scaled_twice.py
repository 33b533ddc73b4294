"""A nanoGPT whose residual projections start smaller by the root of twice the depth, two times."""

BASE = "nanogpt"
REPLACE = {
    "                nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))\n": """\
                nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))
                p.data.mul_((2 * config.n_layer) ** -0.5)
""",
}
PLANTED = "residual projections are scaled down twice"
CAUGHT_BY = ("init",)
CAUSE = ("scaled down twice",)
