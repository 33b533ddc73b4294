"""A GPT-2 with a loss for training beside forward, a sequence at a time.

Re-enacts means of means: sequences with few counted targets weigh as much as full ones.
"""

BASE = "loss_beside_forward"
REPLACE = {
    'ignore_index=-1, reduction="sum"\n': "ignore_index=-1\n",
    "        return total / (targets != -1).sum()\n": "        return total / len(idx)\n",
}
PLANTED = "loss() averages the means of sequences"
CAUGHT_BY = ("logits",)
CAUSE = ("loss(idx, targets) differs",)
