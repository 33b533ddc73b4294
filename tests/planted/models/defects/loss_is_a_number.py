"""A GPT-2 with ALiBi and parallel blocks, tidied up for logging.

Re-enacts loss.item() in the model: nothing can be trained with it.
"""

BASE = "alibi_parallel"
REPLACE = {
    "        if cache is None:\n": """\
            loss = loss.item()
        if cache is None:
""",
}
PLANTED = "the loss is a Python float"
CAUGHT_BY = ("step", "logits")
CAUSE = ("float", "backward", "loss")
