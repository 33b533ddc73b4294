"""A GPT-2 with gates that start almost open, through a bias of 2.

Re-enacts biases that are all set to zero by what is built around them: the gates start at a half.
"""

BASE = "gate_bias_survives"
REPLACE = {
    ' and "gate" not in name': "",
}
PLANTED = "the bias that opens the gate is zeroed by the model"
CAUGHT_BY = ("init",)
CAUSE = ("gate", "bias", "init", "overwrit")
