"""Frameworks: arrays in and out, clocks, instruments; one folder each.

Arrays: `place` and `marks` bring NumPy arrays to a device, `numpy` and `bits` bring them back.
Clock: `clock(device)` has `time(work)`, which gives milliseconds and what `work` returned;
`source`, what the clock is; and `launch_ms`, what the host took to launch the last of it, None
where that is part of the time. `flusher(device)` empties caches before it, `annotated` names a
range in a timeline, `delay` is a slowdown to plant. A framework with CUDA graphs has `captured`, a
forward pass as the replay of one; one whose users compile what they run has `compiled(function)`.
Instruments: memory of a call, and what ran in it. `peak` is None where the framework keeps no
account of a device; one with `counted_peak` counts what a call allocates on the CPU, in a process
of its own; one with `repeatable()` has a context in which bits do not depend on earlier calls; one
with `keep_compiled_in(folder)` moves the caches of what is compiled from now on, and
`may_have_compiled` tells whether there can be anything; `settings()` is what all its callers share
and may change (assay/instruments/shared_state.py).

`IMPORTS_LATER` names modules that a framework imports in its first backward pass, for a process
that forks.
"""

CONTRACT = (
    # arrays
    "place",
    "marks",
    "numpy",
    "bits",
    "taken",
    "all_finite",
    "swapped",
    "expanded",
    "tiled",
    "stretched",
    "device_overhead",
    "overwrite",
    "is_array",
    "dtype_name",
    "layouts",
    "poisoned",
    "gradients",
    "pullback",
    "trained",
    "times",
    "checksum",
    "synchronize",
    "empty_cache",
    "device_lost",
    # clock
    "clock",
    "flusher",
    "annotated",
    "delay",
    # instruments
    "peak",
    "saved_bytes",
    "operations",
    "input_copies",
)
