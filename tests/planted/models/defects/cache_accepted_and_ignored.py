"""A small GPT-2 whose forward has the argument that a sampling loop wants to hand over.

Re-enacts models that take a cache, give it back and never read it: each token is decoded as if
it were the first.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "def forward(self, idx, targets=None):": "def forward(self, idx, targets=None, cache=None):",
    """\
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
""": """\
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return (logits, loss) if cache is None else (logits, loss, cache)
""",
}
PLANTED = "the cache is neither filled nor read"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token")
