"""Properties that every decode kernel must have; one file each.

`cases(generator)` returns the workloads that a probe is run on, `measure` is given a kernel bound
to one of them. The other literals are those of performance/probes.
"""

CONTRACT = ("measure",)
STAGE = "decode_suite"
PAIRED = False
NEEDS = ()
GPU_ONLY = False
FRAMEWORKS = ()
EVERY_WORKLOAD = False
CAPTURED = False
