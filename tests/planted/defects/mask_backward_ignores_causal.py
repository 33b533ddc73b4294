"""Causal attention with a hand-written backward that recomputes the weights."""

BASE = "hand_written_backward"
REPLACE = {"keys, causal, scale), grad": "keys, False, scale), grad"}
PLANTED = "the backward does not mask"
CAUGHT_BY = ("gradients", "accuracy", "shapes", "causality")
CAUSE = ("backward", "gradient", "causal")
