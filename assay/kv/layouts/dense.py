"""Whole keys and values for each head, and queries where later tokens read them."""

from assay.kv.quantised import Quantised

_layout = Quantised()
streams = _layout.streams
encode = _layout.encode
decode = _layout.decode
