"""Measurements of one call; one file each.

STAGE is the stage that runs a probe. A PAIRED probe gives one sample per call and is called for
all implementations of a cell in interleaved rounds (it times with `call.timer`); another is called
once. NEEDS names probes that must have passed before it, INSTRUMENTS those of calibration.py that
must read known quantities back in the same process; GPU_ONLY is not run on a CPU, one with
FRAMEWORKS only for theirs, and one of CAPTURED workloads on no others.
"""

CONTRACT = ("measure",)
STAGE = "bench"
PAIRED = False
NEEDS = ()
INSTRUMENTS = ()
GPU_ONLY = False
FRAMEWORKS = ()
EVERY_WORKLOAD = False
CAPTURED = False
