"""Online softmax over tiles of 8 keys."""

BASE = "online_tiles"
REPLACE = {
    "TILE = 64": "TILE = 8",
    "range(0, keys, TILE)": "range(0, max(keys // TILE, 1) * TILE, TILE)",
}
PLANTED = "the last partial tile of 8 keys is dropped"
CAUGHT_BY = ("shapes",)
CAUSE = "partial tile of 8 keys is dropped"
