"""What a model must show before anything is measured with it; one file each.

`examine(subject)` is given a Subject and returns a Finding. DEBUG says how to look for the cause
of a failure. ORDER is the place in tables: the lowest first, and those without one last.
"""

CONTRACT = ("examine",)
DEBUG = ""
ORDER = 100
