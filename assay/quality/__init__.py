"""Damage by fewer bytes in a cache: a model's loss, its choices, its memory of a needle."""
