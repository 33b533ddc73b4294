"""A GPT-2 with rotary positions and grouped heads that says what its cache takes.

Re-enacts a formula for one sequence that is asked for a batch.
"""

BASE = "rope_grouped_rmsnorm"
REPLACE = {
    "batch * tokens": "tokens",
}
PLANTED = "the claim does not grow with the batch"
CAUGHT_BY = ("bytes",)
CAUSE = ("byte", "claim", "cache")
