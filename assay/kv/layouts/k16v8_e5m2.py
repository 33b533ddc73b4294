"""Keys as they are, values in FP8 e5m2 with a scale for each token and head."""

from assay.kv.formats import E5M2
from assay.kv.quantised import Quantised

EXACT = False
SCALES = "token and head"

_layout = Quantised(values=E5M2)
streams = _layout.streams
encode = _layout.encode
decode = _layout.decode
