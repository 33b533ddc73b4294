"""Keys and values in whole numbers of 8 bits; 32 of them share a 16-bit scale."""

from assay.attention.decode._split_kv import reader

LAYOUT = "int8"
REQUIRES = ("triton",)
KERNELS = {"cuda": "^decode_kernel"}

decode = reader(keys="int8", values="int8")
