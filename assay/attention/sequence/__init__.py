"""Implementations of attention over whole sequences; one file each.

IMPORTS_LATER names modules that an implementation of ours imports in its first call on a GPU, for
a process that forks.
"""

CONTRACT = ("attention",)
FRAMEWORK = "torch"
ACCEPTS = ()
LAYOUT = "BHSD"
CONFIGS = ()
LIMITS = {}
FLOAT32 = "ieee"
FP8 = None
BACKWARD = True
DETERMINISTIC_BACKWARD = True
KERNELS = {}
IMPORTS_LATER = ()
