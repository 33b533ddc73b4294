"""Keys and values in NVFP4: FP4 with an FP8 scale for each 16, and one for each token and head."""

from assay.kv.formats import NVFP4
from assay.kv.quantised import Quantised

EXACT = False
SCALES = "16 numbers of a token and head, and the token and head"

_layout = Quantised(keys=NVFP4, values=NVFP4)
streams = _layout.streams
encode = _layout.encode
decode = _layout.decode
