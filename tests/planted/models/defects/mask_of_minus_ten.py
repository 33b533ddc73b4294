"""A GPT-2 as plain functions over a dictionary of parameters.

Re-enacts a mask that is added as a finite number, small enough for half precision and not
small enough to hide: a future key keeps a weight of about exp(-10).
"""

BASE = "plain_functions"
REPLACE = {
    "scores = scores.masked_fill(j > i, -torch.inf)": (
        "scores = torch.where(j > i, scores - 10.0, scores)"
    ),
}
PLANTED = "the mask adds -10 where it should hide"
CAUGHT_BY = ("causality", "cached")
CAUSE = ("position", "future", "later", "earlier", "before", "cache")
