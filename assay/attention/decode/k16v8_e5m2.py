"""Keys as they are, values in FP8 e5m2 with a scale for each token and head."""

from assay.attention.decode._split_kv import RowReader

LAYOUT = "k16v8_e5m2"
ACCEPTS = ("lengths", "pages", "lse", "scratch")
REQUIRES = ("triton",)
KERNELS = {"cuda": "^decode_kernel"}

_reader = RowReader(keys="whole", values="e5m2")
decode = _reader.decode
supports = _reader.supports
