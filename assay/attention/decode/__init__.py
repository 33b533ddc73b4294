"""Kernels of decoding: a few new queries against what a cache keeps; one file for each layout read.

A file has `decode(q, streams, *, scale, lengths=None, pages=None, lse=False)`. q is [batch, heads,
new tokens, head_dim]; `streams` are the tensors of a layout by name, as a cache holds them: [batch,
kv heads, keys, width], or pages [pages, kv heads, page size, width] with `pages` int32 [batch, most
pages], the page numbers of each sequence in order. `lengths` int32 [batch] counts the keys of each
sequence, those of the new tokens included, and none means all of them; new token i of T sees the
keys up to length - T + i. What lies behind a length is never used, whatever it holds. The result
has q's shape and dtype; a query without a key gives zeros, and -inf as its LSE. Query head h reads
kv head h // (heads / kv heads).

Latent layouts have one row for all heads: [batch, keys, width] or [pages, page size, width]. There
queries are as wide as a row, and `value_width` says how many numbers of a row are averaged.

LAYOUT names the layout that a file reads. DEQUANTISES says that what is kept in few bits is written
out whole before anything attends to it: such a file is there to compare with, never timed as a
kernel of the layout. ACCEPTS names those of lengths, pages, lse and scratch that it takes.
DETERMINISTIC is False where the bits of its output change from call to call.
Optional is `supports(*, head_dim, dtype, device)`, the reason why it cannot be used, or None; a
device is cpu or cuda.
"""

CONTRACT = ("decode",)
FRAMEWORK = "torch"
LAYOUT = "dense"
DEQUANTISES = False
ACCEPTS = ("lengths",)
DETERMINISTIC = True
REQUIRES = ()
KERNELS = {}
