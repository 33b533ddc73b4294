"""A nanoGPT that draws every matrix it has, and does not ask whose it is."""

BASE = "positions_of_a_class"
REPLACE = {
    """\
        if isinstance(module, Positions):
            nn.init.normal_(module.table, std=0.02)
""": "",
    '            if name.endswith("c_proj.weight"):\n': """\
            if p.dim() == 2:
                nn.init.normal_(p, mean=0.0, std=0.02)
            if name.endswith("c_proj.weight"):
""",
}
PLANTED = "a sweep over all matrices overwrites positions that start at zero"
CAUGHT_BY = ("init",)
CAUSE = ("wpe.table",)
