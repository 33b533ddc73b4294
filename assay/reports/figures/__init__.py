"""Pictures drawn from records, for the page and for print; one file each."""

CONTRACT = ("draw",)
