"""A GPT-2 as plain functions over a dictionary of parameters.

Re-enacts a loop that ends one layer early; the layer is counted and saved, and never runs.
"""

BASE = "plain_functions"
REPLACE = {
    "        for n in range(config.n_layer):\n": "        for n in range(config.n_layer - 1):\n",
}
PLANTED = "the last layer is never called"
CAUGHT_BY = ("gradients",)
CAUSE = ("qkv_", "up_", "out_", "down_", "one_", "two_")
