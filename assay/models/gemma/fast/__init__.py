"""Gemma with fused projections and a preallocated cache."""
