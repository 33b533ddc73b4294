"""Keys in FP8 e4m3 with a scale for each token and head, values as they are."""

from assay.attention.decode._split_kv import RowReader

LAYOUT = "k8v16"
ACCEPTS = ("lengths", "pages", "lse", "scratch")
REQUIRES = ("triton",)
KERNELS = {"cuda": "^decode_kernel"}

_reader = RowReader(keys="e4m3", values="whole")
decode = _reader.decode
supports = _reader.supports
