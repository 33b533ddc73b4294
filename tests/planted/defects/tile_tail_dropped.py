"""Online softmax over tiles of 64 keys."""

BASE = "online_tiles"
REPLACE = {"range(0, keys, TILE)": "range(0, max(keys // TILE, 1) * TILE, TILE)"}
PLANTED = "the last partial tile of keys is dropped"
CAUGHT_BY = ("shapes", "accuracy", "metamorphic")
CAUSE = ("last key", "partial", "tail", "multiple", "tile")
