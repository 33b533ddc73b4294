"""A GPT-2 with multi-head latent attention that absorbs the key projection when it decodes.

Re-enacts scores in the latent divided by sqrt(d_latent): right for a latent head of its own,
wrong for one that must equal attention in heads of width d.
"""

BASE = "mla_splice"
REPLACE = {
    """\
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, -1)), code
""": '''\
        if past is None:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        else:
            y = self.absorbed(q, self.kvsplice.expand(code), v, seen)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, -1)), code

    def absorbed(self, q, z, v, seen):
        """Scores of (W_uk^T q) with the latents themselves, without making keys."""
        W_uk = self.from_kv_latent.weight.view(2, self.H, self.d, -1)[0]
        q = torch.einsum("bhtd,hdr->bhtr", q, W_uk)
        scores = torch.einsum("bhtr,bsr->bhts", q, z) / z.size(-1) ** 0.5
        return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v
''',
}
PLANTED = "absorbed decode scales by the latent width, not by the head width"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token")
