"""A sliding window of five tokens, the same in the full pass and from the cache.

Most of the cache is out of reach of a query, and is kept all the same.
"""

BASE = "plain_functions"
REPLACE = {
    "from assay.models.gpt2.config import GPTConfig\n": """\
from assay.models.gpt2.config import GPTConfig

WINDOW = 5
""",
    "scores = scores.masked_fill(j > i, -torch.inf)": (
        "scores = scores.masked_fill((j > i) | (j <= i - WINDOW), -torch.inf)"
    ),
}
