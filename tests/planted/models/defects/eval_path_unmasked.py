"""A nanoGPT with a fast path for evaluation.

Re-enacts two attention calls for two modes of which only one got the mask: validation loss
looks wonderful, training loss does not.
"""

BASE = "nanogpt"
REPLACE = {
    """\
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0
        )
""": """\
        if self.training or past is not None:
            drop = self.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop)
        else:
            y = F.scaled_dot_product_attention(q, k, v)
""",
}
PLANTED = "no causal mask in eval mode"
CAUGHT_BY = ("causality", "modes")
CAUSE = ("position", "future", "later", "earlier", "before", "eval")
