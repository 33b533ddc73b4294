"""A GPT-2 in einsum with a preallocated store for keys and values.

Re-enacts a mask that is left out once there is a history, since a single new token needs none;
a chunk of several tokens then sees its own future.
"""

BASE = "store_preallocated"
REPLACE = {
    '        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)\n': """\
        if store is None or store.length == 0:
            scores = scores.masked_fill(hidden, float("-inf"))
        weights = scores.softmax(-1)
""",
}
PLANTED = "a chunk after the first is not causal inside"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token", "chunk")
