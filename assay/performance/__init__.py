"""What an implementation costs: interleaved rounds, memory, kernels, limits, noise."""
