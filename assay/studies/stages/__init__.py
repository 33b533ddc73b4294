"""Stages of a study, in the order that AFTER gives; one file each.

FAILS_ON are the outcomes that make a stage failed: where speeds are measured, running out of memory
is a result like another; where correctness is, it is not. One that SUPPLIES makes what later stages
make their cells of, so they are planned anew when it is done. USES names frameworks that are
imported once for all its cells, beside those of their implementations. The cells of one that
STREAMS may yield batches and have a folder of their own, from which their next attempt continues.
REUSABLE_H is for how many hours what a cell measured may stand in for the same cell of a later run
that asks for it (assay/studies/reuse.py).
"""

CONTRACT = ("cells", "run")
AFTER = ()
FAILS_ON = ("failed",)
STREAMS = False
REUSABLE_H = 0
SUPPLIES = False
USES = ()
