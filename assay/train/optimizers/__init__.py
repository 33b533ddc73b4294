"""Optimizers; one file each, chosen by an entry such as `adamwspam+theta=5000`.

`make(model, settings, **options)` returns a torch optimizer over all parameters that are trained,
whose whole state is in its `state_dict()`, in tensors and numbers. OPTIONS has the options of a
file with their defaults. The loop sets `lr` of every group before each step, times the group's
`lr_factor` where it has one. MOMENTS is true where the state of the linear maps has Adam's moments,
`exp_avg` and `exp_avg_sq`; SPARSE is false where a weight that is 0 with a gradient of 0 does not
stay so.
"""

CONTRACT = ("make",)
REQUIRES = ("torch",)
OPTIONS = {}
MOMENTS = False
SPARSE = True
