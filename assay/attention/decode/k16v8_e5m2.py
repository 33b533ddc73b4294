"""Keys as they are, values in FP8 e5m2 with a scale for each token and head."""

from assay.attention.decode._split_kv import reader

LAYOUT = "k16v8_e5m2"
REQUIRES = ("triton",)
KERNELS = {"cuda": "^decode_kernel"}

decode = reader(keys="whole", values="e5m2")
