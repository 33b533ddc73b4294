"""A nanoGPT with a key-value cache.

Re-enacts is_causal=True with fewer queries than keys, which aligns the triangle with the first
key: a single new token then attends to token 0 alone.
"""

BASE = "nanogpt"
REPLACE = {
    """\
        S = k.size(2)
        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0
""": """\
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0
""",
}
PLANTED = "the mask of a cached call is aligned top-left"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token")
