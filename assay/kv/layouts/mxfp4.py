"""Keys and values in MXFP4: FP4 with a power of two for each 32."""

from assay.kv.formats import MXFP4
from assay.kv.quantised import Quantised

EXACT = False
SCALES = "32 numbers of a token and head"

_layout = Quantised(keys=MXFP4, values=MXFP4)
streams = _layout.streams
encode = _layout.encode
decode = _layout.decode
