"""Implementations of attention over whole sequences; one file each."""

CONTRACT = ("attention",)
FRAMEWORK = "torch"
ACCEPTS = ()
LAYOUT = "BHSD"
BACKWARD = True
DETERMINISTIC_BACKWARD = True
KERNELS = {}
