"""A backward that computes only the gradients that are asked for."""

BASE = "only_needed_gradients"
REPLACE = {"needs_dq, needs_dk, needs_dv =": "needs_dq, needs_dv, needs_dk ="}
PLANTED = "whether dk is computed depends on v, and the other way round"
CAUGHT_BY = ("gradients",)
CAUSE = ("only", "requires grad", "requires_grad", "needs_input_grad", "none")
