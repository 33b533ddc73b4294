"""Figures drawn from records, for the page and for print; one file each.

`draw(records)` returns Charts. A report shows them by their PLACE, then by name.
"""

CONTRACT = ("draw",)
PLACE = 60
