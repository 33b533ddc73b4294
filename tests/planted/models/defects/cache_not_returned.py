"""A nanoGPT that takes a cache and does not give it back."""

BASE = "nanogpt"
REPLACE = {
    "return (logits, loss) if cache is None else (logits, loss, presents)": "return logits, loss",
}
PLANTED = "a call with a cache returns logits and loss alone"
CAUGHT_BY = ("cached",)
CAUSE = ("wanted (logits, loss, cache)",)
