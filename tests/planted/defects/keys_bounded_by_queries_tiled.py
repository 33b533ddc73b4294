"""Online softmax over as many tiles of keys as there are of queries."""

BASE = "online_tiles"
REPLACE = {"range(0, keys, TILE)": "range(0, min(queries, keys), TILE)"}
PLANTED = "the loop over tiles of keys ends at the number of queries"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = "keys are bounded by Sq instead of Sk (in tiles of 64)"
SLOW = True  # another of its kind is quick
