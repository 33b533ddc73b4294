"""Models that put attention to work, as Flax modules that load existing checkpoints."""
