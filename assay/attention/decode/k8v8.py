"""Keys and values in FP8 e4m3 with a scale for each token and head."""

from assay.attention.decode._split_kv import reader

LAYOUT = "k8v8"
REQUIRES = ("triton",)
KERNELS = {"cuda": "^decode_kernel"}

decode = reader(keys="e4m3", values="e4m3")
