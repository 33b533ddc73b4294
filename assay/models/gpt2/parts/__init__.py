"""Parts of the GPT-2 family, one file each: a TAG in the model's name and the SLOT it fills.

See docs/models.md for what the part of each slot must offer.
"""

CONTRACT = ("build",)
FRAMEWORK = "torch"
NEEDS = ()  # slots that must be filled as well
EXCLUDES = {}  # slots that must be empty, with the reason
JOINS = False  # whether the tag is written at the end of another one
NEUTRAL = False  # whether its modules have neutral_(), which makes the model its baseline
VARIATIONS = ()  # options beyond the defaults that are to be tested
