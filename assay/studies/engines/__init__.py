"""Engines, which run cells; one file each.

`run(jobs)` takes jobs in any order and gives back a CellResult for each, as soon as it is there:
`attempt(job)` of assay/studies/attempt.py makes one on the machine where it is called. One that
measures elsewhere defines `hosts()`, the fingerprints of the machines whose measurements count.
"""

CONTRACT = ("run",)
