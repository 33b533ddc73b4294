"""One block, applied n_layer times, as in ALBERT; each application has its own cache.

Parameters have several names, and gradients of all layers add up in them.
"""

BASE = "nanogpt"
REPLACE = {
    "h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),": (
        "h=nn.ModuleList([Block(config)] * config.n_layer),"
    ),
}
