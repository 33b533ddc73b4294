"""A GPT-2 with a sliding window of five tokens, as plain functions.

Re-enacts a window counted with the new token in the full pass and without it when decoding.
"""

BASE = "sliding_window"
REPLACE = {
    "    scores = scores.masked_fill((j > i) | (j <= i - WINDOW), -torch.inf)\n": """\
    reach = WINDOW if cache is None else WINDOW + 1
    scores = scores.masked_fill((j > i) | (j <= i - reach), -torch.inf)
""",
}
PLANTED = "cached decode sees one token more than the window holds"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token")
