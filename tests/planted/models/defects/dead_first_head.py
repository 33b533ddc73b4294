"""A GPT-2 in einsum with a preallocated store.

Re-enacts head indices that start at one: the first head is computed and left out of the sum.
"""

BASE = "store_preallocated"
REPLACE = {
    '        return einsum("bhts,bshd,hde->bte", weights, v, self.W_o)\n': """\
        y = torch.zeros_like(x)
        for h in range(1, len(self.W_o)):
            y = y + weights[:, h] @ v[:, :, h] @ self.W_o[h]
        return y
""",
}
PLANTED = "the first head never enters the output"
CAUGHT_BY = ("gradients",)
CAUSE = ("W_q", "W_k", "W_v", "W_o")
