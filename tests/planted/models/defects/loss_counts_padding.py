"""A nanoGPT that guards its loss against negative labels.

Re-enacts clamp(min=0): what was to be ignored is learned as token 0.
"""

BASE = "nanogpt"
REPLACE = {
    """\
            loss = F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
""": """\
            labels = targets.clamp(min=0).view(-1)
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), labels)
""",
}
PLANTED = "targets of -1 are counted as token 0"
CAUGHT_BY = ("logits",)
CAUSE = ("loss", "entropy", "target", "ignore")
