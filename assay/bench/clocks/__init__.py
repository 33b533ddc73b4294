"""How time is taken in each framework; one file each.

`clock(device)` has `time(work)`, which gives milliseconds and what `work` returned; `source`, what
the clock is; and `launch_ms`, what the host took to launch the last of it, None where that is not
told apart. `flusher(device)` empties caches before it. `captured` is a forward pass as the replay
of a CUDA graph, None where there are none. `annotated` names a range in a timeline; `delay` is a
slowdown to plant.
"""

CONTRACT = ("clock", "flusher", "captured", "annotated", "delay")
