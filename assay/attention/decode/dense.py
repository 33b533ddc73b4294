"""Keys and values as they are, read by our split kernel."""

from assay.attention.decode._split_kv import reader

LAYOUT = "dense"
REQUIRES = ("triton",)
KERNELS = {"cuda": "^decode_kernel"}

decode = reader(keys="whole", values="whole")
