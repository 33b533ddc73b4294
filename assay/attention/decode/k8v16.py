"""Keys in FP8 e4m3 with a scale for each token and head, values as they are."""

from assay.attention.decode._split_kv import reader

LAYOUT = "k8v16"
REQUIRES = ("triton",)
KERNELS = {"cuda": "^decode_kernel"}

decode = reader(keys="e4m3", values="whole")
