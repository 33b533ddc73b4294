"""A nanoGPT with low-rank additions that each eval() adds to the weights, and train()
takes off once.

A harness that calls eval() on a model already in evaluation judges one that counts them twice.
"""

BASE = "lora_merged_in_evaluation"
REPLACE = {"        if self.merged == mode:\n": "        if not mode or self.merged:\n"}
PLANTED = "eval() merges adapters again"
CAUGHT_BY = ("state",)
CAUSE = ("after a second eval()",)
