"""A GPT-2 whose mask is laid out in tiles of four tokens, as block-sparse kernels want it.

Re-enacts a tile mask without the triangle inside the tiles on the diagonal.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    """\
        size = config.block_size
        self.register_buffer("mask", torch.ones(size, size).tril().bool(), persistent=False)
""": """\
        tile = torch.arange(config.block_size) // 4
        self.register_buffer("mask", tile[:, None] >= tile, persistent=False)
""",
}
PLANTED = "tokens see the rest of their own tile"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
