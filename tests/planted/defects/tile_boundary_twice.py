"""Online softmax over tiles of 64 keys, both ends included."""

BASE = "online_tiles"
REPLACE = {"min(start + TILE, keys)": "min(start + TILE + 1, keys)"}
PLANTED = "the key at each tile boundary is counted twice"
CAUGHT_BY = ("shapes", "accuracy", "metamorphic")
CAUSE = ("twice", "boundary", "tile", "64")
