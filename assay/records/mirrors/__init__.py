"""Trackers that a run's records are mirrored to, one file each.

`connect(destination)` returns a mirror with `send(points)` and `close()`. A mirror holds back what
its tracker has already, by what the tracker itself stored, and `close` raises where not everything
that was sent is there.
"""

CONTRACT = ("connect",)
REQUIRES = ()
