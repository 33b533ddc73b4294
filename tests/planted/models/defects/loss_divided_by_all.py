"""A GPT-2 as plain functions over a dictionary of parameters.

Re-enacts a mean over all tokens of a sum that leaves some out: padding makes the loss look better.
"""

BASE = "plain_functions"
REPLACE = {
    "            loss = F.cross_entropy(logits.mT, targets, ignore_index=-1)\n": """\
            each = F.cross_entropy(logits.mT, targets, ignore_index=-1, reduction="none")
            loss = each.mean()
""",
}
PLANTED = "the loss is divided by the ignored tokens too"
CAUGHT_BY = ("logits",)
CAUSE = ("loss", "entropy", "target", "ignore")
