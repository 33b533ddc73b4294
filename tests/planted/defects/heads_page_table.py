"""Attention on keys and values in pages of 64, in a table of 256 entries."""

BASE = "eager_plain"
REPLACE = {
    "    k, v = (x.repeat": ("    k, v = (_paged(x) for x in (k, v))\n    k, v = (x.repeat"),
    "\n\ndef attention(": '''

def _paged(x):
    """The pages that the table has entries for, in their order; the others are the last of them."""
    batch, heads, keys, dim = x.shape
    pages = -(-keys // 64)
    padded = torch.nn.functional.pad(x, (0, 0, 0, pages * 64 - keys))
    table = torch.arange(batch * heads * pages).clamp(max=255)
    taken = padded.reshape(-1, 64, dim)[table]
    return taken.reshape(batch, heads, pages * 64, dim)[:, :, :keys]


def attention(''',
}
PLANTED = "a page table of 256 entries, for batch x kv heads x pages"
CAUGHT_BY = ("shapes",)
CAUSE = ("batch", "head")
