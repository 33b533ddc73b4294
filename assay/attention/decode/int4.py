"""Keys and values in whole numbers of 4 bits; 32 of them share a 16-bit scale."""

from assay.attention.decode._split_kv import reader

LAYOUT = "int4"
REQUIRES = ("triton",)
KERNELS = {"cuda": "^decode_kernel"}

decode = reader(keys="int4", values="int4")
