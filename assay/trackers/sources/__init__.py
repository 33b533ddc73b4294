"""Places that runs of trackers are read from, one file each.

`recognises(request)` is true where a source can read what was asked for, going by names and first
bytes; `read(request)` returns its runs (trackers/run.py). Nothing is written, and no value that is
missing is filled in.
"""

CONTRACT = ("recognises", "read")
REQUIRES = ()
