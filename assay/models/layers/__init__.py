"""Whole attention layers as the bench sees them, projections included; one file each.

CORES are the ways in which a layer can compute the attention itself: what is measured is called
layer:core. HEADS are the (query heads, kv heads, head dimension) that it is built for; none is any.
"""

CONTRACT = ("init", "apply")
FRAMEWORK = "jax"
CORES = ("xla",)
HEADS = ()
