"""A nanoGPT that translates the ignored label to the one that cross_entropy ignores by itself.

Re-enacts a translation in place: the loss is right, and the caller's targets are not what they
were.
"""

BASE = "nanogpt"
REPLACE = {
    """\
            loss = F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
""": """\
            targets[targets == -1] = -100
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
""",
}
PLANTED = "the caller's targets are overwritten"
CAUGHT_BY = ("state", "logits")
CAUSE = ("target", "input", "argument", "overw")
