"""A GPT-2 with a spliced latent that merges two projections into one when it first decodes.

A run that samples between its steps goes on decoding with those of the first sample.
"""

BASE = "merged_until_training"
REPLACE = {
    "        self.merged = None\n        return super().train(mode)\n": (
        "        return super().train(mode)\n"
    )
}
PLANTED = "projections merged for decoding outlive an optimizer step"
CAUGHT_BY = ("state",)
CAUSE = ("after an optimizer step",)
