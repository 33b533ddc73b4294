"""A nanoGPT with a penalty that is zero: its value is finite, the gradient of its root is not."""

BASE = "nanogpt"
REPLACE = {
    "        return (logits, loss) if cache is None else (logits, loss, presents)\n": """\
            loss = loss + 0 * (logits * 0).sqrt().sum()
        return (logits, loss) if cache is None else (logits, loss, presents)
""",
}
PLANTED = "the gradient is NaN while the loss is finite"
CAUGHT_BY = ("step",)
CAUSE = ("nan", "finite")
