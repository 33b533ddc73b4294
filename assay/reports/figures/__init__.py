"""Pictures drawn from records, for the page and for print; one file each.

A report shows them by their PLACE, then by name.
"""

CONTRACT = ("draw",)
PLACE = 60
