"""What fewer bytes in a cache do to a model: its loss, its choices, its memory of a needle."""
