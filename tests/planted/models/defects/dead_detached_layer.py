"""A nanoGPT in which one layer was once frozen for an experiment.

Re-enacts a detach() that stayed: attention of the middle layer runs, its weights never learn.
"""

BASE = "nanogpt"
REPLACE = {
    """\
class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
""": """\
class Block(nn.Module):
    def __init__(self, config, frozen):
        super().__init__()
        self.frozen = frozen
""",
    "x = x + y": "x = x + (y.detach() if self.frozen else y)",
    "        self.config = config\n": """\
        self.config = config
        middle = config.n_layer // 2
""",
    "h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),": (
        "h=nn.ModuleList([Block(config, n == middle) for n in range(config.n_layer)]),"
    ),
}
PLANTED = "attention of one layer is detached from the graph"
CAUGHT_BY = ("gradients",)
CAUSE = ("attn", "h.2")
