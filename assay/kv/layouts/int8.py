"""Keys and values in whole numbers of 8 bits; 32 of them share a 16-bit scale."""

from assay.kv.formats import INT8
from assay.kv.quantised import Quantised

EXACT = False
SCALES = "32 numbers of a token and head"

_layout = Quantised(keys=INT8, values=INT8)
streams = _layout.streams
encode = _layout.encode
decode = _layout.decode
