"""Attention over padded batches; each entry's mask follows its own length."""

BASE = "every_option"
REPLACE = {
    "    distance = position - column\n": """\
    distance = position - column
    if lengths is not None:
        distance = distance + lengths.to(q.device)[:, None, None, None] - keys
""",
}
PLANTED = "lengths move the causal diagonal"
CAUGHT_BY = ("options",)
CAUSE = ("length", "align", "diagonal")
