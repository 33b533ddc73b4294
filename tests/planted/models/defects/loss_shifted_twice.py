"""A GPT-2 with rotary positions whose loss comes from code that shifts labels itself.

Re-enacts targets that the data loader has shifted already: the model learns the token after next.
"""

BASE = "rope_grouped_rmsnorm"
REPLACE = {
    "            loss = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-1)\n": """\
            shifted = logits[:, :-1].transpose(1, 2)
            loss = F.cross_entropy(shifted, targets[:, 1:], ignore_index=-1)
""",
}
PLANTED = "the targets are shifted by one position more"
CAUGHT_BY = ("logits",)
CAUSE = ("loss", "entropy", "target", "ignore")
