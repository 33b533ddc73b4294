"""Checks of what may be compared, one file each.

`look(comparison)` returns its findings (verify/finding.py) on one run, whose arms are compared, or
on two; none where it has nothing to look at. It reads records and runs nothing.
"""

CONTRACT = ("look",)
