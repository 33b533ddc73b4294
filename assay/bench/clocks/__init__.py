"""How time is taken in each framework; one file each.

`clock(device)` has `time(work)`, which gives milliseconds and what `work` returned; `source`, what
the clock is; and `launch_ms`, what the host took to launch the last of it, None where that is not
told apart. `flusher(device)` empties caches before it; `annotated` names a range in a timeline;
`delay` is a slowdown to plant. A framework with CUDA graphs has `captured`, a forward pass as the
replay of one.
"""

CONTRACT = ("clock", "flusher", "annotated", "delay")
