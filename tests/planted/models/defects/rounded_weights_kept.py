"""A nanoGPT whose first MLP weights are rounded to 8 bits, for evaluation once and for all."""

BASE = "weights_rounded_for_evaluation"
REPLACE = {
    "        self.kept = None\n        return super().train(mode)\n": (
        "        return super().train(mode)\n"
    )
}
PLANTED = "rounded weights outlive an optimizer step"
CAUGHT_BY = ("state",)
CAUSE = ("after an optimizer step",)
