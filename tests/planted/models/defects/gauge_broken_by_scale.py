"""A GPT-2 with fixed reciprocal attention in its later half, and its exact twin.

Re-enacts a reciprocal branch with a temperature of its own: what is reported as the gain of the
exchange is that of another scale.
"""

BASE = "fixed_reciprocal"
REPLACE = {
    "        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)\n": """\
        scale = 1.0 if self.reciprocal else None
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale)
""",
}
PLANTED = "reciprocal layers do not divide the scores by sqrt(d)"
CAUGHT_BY = ("gauge",)
CAUSE = ("gauge", "twin", "exchang", "swap")
