"""Tensors in files: forms, checksums, and the exchange with other programs."""
