"""Caches: the tensors kept for each token, and their bytes."""
