"""Keys in FP8 e4m3 with a scale for each token and head, values as they are."""

from assay.kv.formats import E4M3
from assay.kv.quantised import Quantised

EXACT = False
SCALES = "token and head"

_layout = Quantised(keys=E4M3)
streams = _layout.streams
encode = _layout.encode
decode = _layout.decode
