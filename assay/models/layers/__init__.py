"""Whole attention layers as the bench sees them, projections included; one file each.

CORES are the ways in which a layer can compute the attention itself: what is measured is called
layer:core. HEADS are the (query heads, kv heads, head dimension) that it is built for; none is any.
CACHE says which keys the mask of a call with a cache covers: those of all `tokens` so far, or all
`slots` of a cache that is made for a number of tokens; empty where a layer takes no cache.
ATOMIC_CORES are those whose backward adds up in any order, so that its bits may differ.
"""

CONTRACT = ("init", "apply")
FRAMEWORK = "jax"
CORES = ("xla",)
HEADS = ()
CACHE = ""
ATOMIC_CORES = ()
