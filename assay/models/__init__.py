"""Models that put attention to work: Flax modules of our own, and language models of others."""
