"""Cost of an implementation: interleaved rounds, memory, kernels, limits, noise."""
