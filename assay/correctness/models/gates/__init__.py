"""Requirements that a model must meet before anything is measured with it; one file each.

`examine(subject)` takes an ExaminedModel and returns a Finding. DEBUG says how to look for the
cause of a failure. ORDER is the place in tables: the lowest first, those without one last. A gate
with COMPARES_CALLS takes two calls of a model for calls of one function: where it fails and `state`
fails too, it is judged again on a model whose calls leave nothing behind.
"""

CONTRACT = ("examine",)
DEBUG = ""
ORDER = 100
COMPARES_CALLS = False
