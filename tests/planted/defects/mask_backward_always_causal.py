"""Attention with a hand-written backward, made for language models."""

BASE = "hand_written_backward"
REPLACE = {"keys, causal, scale), grad": "keys, True, scale), grad"}
PLANTED = "the backward masks even where causal is False"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = ("backward", "gradient", "causal")
