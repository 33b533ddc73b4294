"""A store for the longest sequence in torch's default dtype, whatever that of the model.

A model in float64 cannot decode with it; it says nothing of its bytes.
"""

BASE = "store_preallocated"
REPLACE = {
    "dtype=like.dtype, device=like.device": "device=like.device",
    """\
    def cache_bytes(self, batch, tokens):
        return 2 * self.config.n_layer * batch * tokens * self.config.n_embd * self.E.element_size()

""": "",
}
