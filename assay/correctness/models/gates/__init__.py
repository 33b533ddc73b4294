"""Requirements that a model must meet before anything is measured with it; one file each.

`examine(subject)` takes an ExaminedModel and returns a Finding. DEBUG says how to look for the
cause of a failure. ORDER is the place in tables: the lowest first, those without one last.
"""

CONTRACT = ("examine",)
DEBUG = ""
ORDER = 100
