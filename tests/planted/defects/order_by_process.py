"""Online softmax over tiles of 16 keys; each process starts elsewhere, to spread memory traffic."""

BASE = "online_tiles"
REPLACE = {
    "import torch\n": """\
import os
import random

import torch
""",
    "TILE = 64": "TILE = 16",
    "    for start in range(0, keys, TILE):\n": """\
    starts = list(range(0, keys, TILE))
    random.Random(os.getpid()).shuffle(starts)
    for start in starts:
""",
}
PLANTED = "the order of the keys depends on the process"
CAUGHT_BY = ("determinism",)
CAUSE = ("process", "repeat", "bit", "determin", "random", "order", "differ")
OWN_PROCESS = True  # another process is needed to see it
