"""Online softmax over tiles of 4 keys."""

BASE = "online_tiles"
REPLACE = {"TILE = 64": "TILE = 4", "range(0, keys, TILE)": "range(0, keys // TILE * TILE, TILE)"}
PLANTED = "the last partial tile of 4 keys is dropped, and with fewer than 4 all of them"
CAUGHT_BY = ("shapes",)
CAUSE = "partial tile of 4 keys is dropped, also where there is no other"
SLOW = True  # another of its kind is quick
