"""Keys and values in whole numbers of 4 bits, two in a byte; 32 of them share a 16-bit scale."""

from assay.kv.formats import INT4
from assay.kv.quantised import Quantised

EXACT = False
SCALES = "32 numbers of a token and head"

_layout = Quantised(keys=INT4, values=INT4)
streams = _layout.streams
encode = _layout.encode
decode = _layout.decode
