"""Online softmax over tiles of 64 keys."""

BASE = "online_tiles"
REPLACE = {"acc = acc * keep + ": "acc = acc + "}
PLANTED = "the output so far is not rescaled when the running maximum grows"
CAUGHT_BY = ("accuracy", "shapes", "metamorphic")
CAUSE = ("rescal", "running max", "maximum", "tile", "64")
