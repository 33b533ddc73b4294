"""Attention by a native routine with room for 100 queries."""

BASE = "eager_plain"
REPLACE = {
    "import torch\n": """\
import os

import torch
""",
    "    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))\n": """\
    if queries > 100:
        os.abort()
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
""",
}
PLANTED = "the process is killed above 100 queries"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = ("crash", "process", "abort", "killed", "signal", "sigabrt", "died")
OWN_PROCESS = True  # ends its process
