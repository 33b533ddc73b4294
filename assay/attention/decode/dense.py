"""Keys and values as they are, read by our split kernel."""

from assay.attention.decode._split_kv import RowReader

LAYOUT = "dense"
ACCEPTS = ("lengths", "pages", "lse", "scratch")
REQUIRES = ("triton",)
KERNELS = {"cuda": "^decode_kernel"}

_reader = RowReader(keys="whole", values="whole")
decode = _reader.decode
supports = _reader.supports
