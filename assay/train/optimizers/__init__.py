"""Optimizers; one file each.

`make(model, settings)` returns a torch optimizer whose whole state is in its `state_dict()`, in
tensors and numbers. The loop sets `lr` of every group before each step, times the group's
`lr_factor` where it has one.
"""

CONTRACT = ("make",)
REQUIRES = ("torch",)
