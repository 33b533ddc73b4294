"""Laws that the numbers obey, computed from records alone: rates, growth, crossovers, limits."""
