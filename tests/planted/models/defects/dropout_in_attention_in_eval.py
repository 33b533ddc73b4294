"""A nanoGPT with dropout on attention, rate from the configuration.

Re-enacts dropout_p handed to scaled_dot_product_attention whatever the mode. With dropout=0 there
is nothing to see; with any other rate evaluation is random.
"""

BASE = "nanogpt"
REPLACE = {
    """\
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0
        )
""": """\
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout)
""",
}
PLANTED = "attention dropout stays on in eval mode"
CAUGHT_BY = ("modes", "state")
CAUSE = ("dropout", "random", "eval", "twice", "call")
