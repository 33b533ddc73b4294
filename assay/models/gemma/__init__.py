"""Gemma in Flax, to the last rounding of the published model; `fast` is its decoding form."""
