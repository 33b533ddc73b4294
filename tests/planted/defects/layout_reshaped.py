"""Attention computed for [batch, queries, heads, dim] and brought into the wanted shape."""

BASE = "transposed_output"
REPLACE = {".contiguous().transpose(1, 2)": ".reshape(q.shape)"}
PLANTED = "the output is reshaped where it should be transposed"
CAUGHT_BY = ("accuracy", "shapes", "batch", "causality")
CAUSE = ("layout", "transpose", "reshape", "order", "permut")
