"""A nanoGPT that draws all its weights a second time.

Re-enacts a general pass after the residual projections were scaled by depth.
"""

BASE = "nanogpt"
REPLACE = {
    "                nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))\n": """\
                nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))
        self.apply(self._init_weights)
""",
}
PLANTED = "the smaller start of the residual projections is lost"
CAUGHT_BY = ("init",)
CAUSE = ("c_proj",)
