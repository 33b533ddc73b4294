"""Keys as they are, values in FP8 e4m3 with a scale for each 16 tokens of a head."""

from assay.kv.formats import E4M3_BLOCK_16
from assay.kv.quantised import Quantised

EXACT = False
SCALES = "sealed block of 16 tokens, and head"
BLOCK = 16

_layout = Quantised(values=E4M3_BLOCK_16)
streams = _layout.streams
encode = _layout.encode
decode = _layout.decode
