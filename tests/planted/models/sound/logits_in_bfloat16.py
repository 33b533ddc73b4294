"""Logits that are handed out in bfloat16, after the loss."""

BASE = "attention_written_out"
REPLACE = {
    "        if cache is None:\n": """\
        logits = logits.bfloat16()
        if cache is None:
""",
}
