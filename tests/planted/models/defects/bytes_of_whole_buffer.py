"""A GPT-2 in einsum with a store that is allocated for the longest sequence.

Re-enacts a claim that grows with the tokens for a buffer that is whole from the first one on.
"""

BASE = "store_preallocated"
REPLACE = {
    """\

    def tensors(self):
        yield self.buffer[:, :, :, : self.length]
""": "",
}
PLANTED = "the buffer takes block_size tokens, the claim counts those decoded"
CAUGHT_BY = ("bytes",)
CAUSE = ("byte", "claim", "cache")
