"""A nanoGPT that keeps a hundred tokens in its cache; the full pass sees all."""

BASE = "attention_written_out"
REPLACE = {
    "return y, (k, v)": "return y, (k[:, :, -100:], v[:, :, -100:])",
}
PLANTED = "older entries are dropped, positions start anew"
CAUGHT_BY = ("cached",)
CAUSE = ("block of 272",)
