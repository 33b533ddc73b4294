"""Properties that every implementation must have; one file each.

`cases(generator)` returns the workloads that a probe is to be run on; a probe with EVERY_WORKLOAD
is run on a study's own workloads too, and the cases of one that is IN_SECOND_PROCESS are run in
another process as well. A probe with OWN_SHAPES keeps its shapes where a kernel compiles for each,
and where others are made smaller. The other literals are those of performance/probes.
"""

CONTRACT = ("measure",)
STAGE = "check"
PAIRED = False
NEEDS = ()
GPU_ONLY = False
FRAMEWORKS = ()
EVERY_WORKLOAD = False
IN_SECOND_PROCESS = False
OWN_SHAPES = False
CAPTURED = False
