"""A GPT-2 in which a token attends to those before it, and not to itself.

Re-enacts a softmax over a row of which all is masked: the first token has nothing to see.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    'self.register_buffer("mask", torch.ones(size, size).tril().bool(), persistent=False)': (
        'self.register_buffer("mask", torch.ones(size, size).tril(-1).bool(), persistent=False)'
    ),
}
PLANTED = "the first row is fully masked and its softmax is NaN"
CAUGHT_BY = ("logits", "step")
CAUSE = ("nan", "finite")
