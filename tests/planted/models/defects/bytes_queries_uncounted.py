"""A GPT-2 that mixes attention with its mirrored view.

Re-enacts a reciprocal variant that is said to need no more cache than the baseline: queries
have to be kept too, and they are.
"""

BASE = "reciprocal_mix"
REPLACE = {
    "numbers = 3 * self.config.n_embd * self.config.n_layer": (
        "numbers = 2 * self.config.n_embd * self.config.n_layer"
    ),
}
PLANTED = "the queries in the cache are not counted"
CAUGHT_BY = ("bytes",)
CAUSE = ("byte", "claim", "cache")
