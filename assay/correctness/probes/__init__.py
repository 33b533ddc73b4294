"""What must hold of every implementation; one file each.

`cases(plan)` gives the workloads that a probe wants to be called on; one that says EVERY_WORKLOAD
is called on a study's own workloads too. The other literals are those of performance/probes.
"""

CONTRACT = ("measure",)
STAGE = "check"
PAIRED = False
NEEDS = ()
GPU_ONLY = False
FRAMEWORKS = ()
EVERY_WORKLOAD = False
CAPTURED = False
