"""Keys as they are, values in FP8 e4m3 with a scale for each head, calibrated before."""

from assay.kv.calibration import FROZEN_E4M3
from assay.kv.quantised import Quantised

EXACT = False
SCALES = "head, frozen"
FROZEN = True

_layout = Quantised(values=FROZEN_E4M3)
streams = _layout.streams
encode = _layout.encode
decode = _layout.decode
