"""What the numbers obey, computed from records alone: rates, exponents, crossovers, limits."""
