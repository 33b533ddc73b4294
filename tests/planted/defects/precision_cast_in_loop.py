"""Online softmax over tiles of 4 keys; a tile is computed in float32 and nothing else is kept."""

BASE = "online_tiles"
REPLACE = {
    "TILE = 64": "TILE = 4",
    "(rows @ k": "(q.float() @ k",
}
PLANTED = "q is cast in each tile, so that autograd adds up dq in half precision"
CAUGHT_BY = ("gradients", "accuracy", "shapes", "stability")
CAUSE = ("precision", "accumulat", "rounding", "rounded", "half")
