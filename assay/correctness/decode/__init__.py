"""Correctness of decode kernels, which read what a cache holds: their cases, probes and suite."""
