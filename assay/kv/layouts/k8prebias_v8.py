"""Keys without their bias and values, both in FP8 e4m3 with a scale for each token and head."""

from assay.kv.formats import E4M3
from assay.kv.quantised import Quantised

EXACT = False
SCALES = "token and head"
KEY_BIAS = True

_layout = Quantised(keys=E4M3, values=E4M3)
streams = _layout.streams
encode = _layout.encode
decode = _layout.decode
