"""Keys and values in whole numbers of 8 bits; 32 of them share a 16-bit scale."""

from assay.attention.decode._split_kv import RowReader

LAYOUT = "int8"
ACCEPTS = ("lengths", "pages", "lse", "scratch")
REQUIRES = ("triton",)
KERNELS = {"cuda": "^decode_kernel"}

_reader = RowReader(keys="int8", values="int8")
decode = _reader.decode
supports = _reader.supports
