"""Parts of the GPT-2 family, one file each: a TAG in the model's name and the SLOT it fills.

See docs/models.md for what the part of each slot must offer.
"""

CONTRACT = ("build",)
FRAMEWORK = "torch"
NEEDS = ()  # slots that must be filled as well
EXCLUDES = {}  # slots that must be empty, with the reason
JOINS = False  # True where the tag is written at the end of another one
NEUTRAL = False  # True where its modules have neutral_(), which makes the model its baseline
OPTIONS = {}  # with their defaults: see options.py
VARIATIONS = ()  # values of options that are examined beside the defaults
