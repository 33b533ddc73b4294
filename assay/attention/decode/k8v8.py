"""Keys and values in FP8 e4m3 with a scale for each token and head."""

from assay.attention.decode._split_kv import RowReader

LAYOUT = "k8v8"
ACCEPTS = ("lengths", "pages", "lse", "scratch")
REQUIRES = ("triton",)
KERNELS = {"cuda": "^decode_kernel"}

_reader = RowReader(keys="e4m3", values="e4m3")
decode = _reader.decode
supports = _reader.supports
