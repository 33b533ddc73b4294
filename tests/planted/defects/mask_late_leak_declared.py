"""Causal attention whose queries from 384 on see the key after theirs too, said to round to FP8."""

BASE = "eager_plain"
REPLACE = {
    'FRAMEWORK = "torch"': 'FRAMEWORK = "torch"\nFP8 = {"format": "e4m3", "scale": "head"}',
    "        seen = seen.tril(keys - queries)": (
        "        late = torch.arange(queries, device=q.device)[:, None] >= 384\n"
        "        seen = seen.tril(keys - queries) | (late & seen.tril(keys - queries + 1))"
    ),
}
PLANTED = "queries from 384 on see one future key, and FP8 is declared"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = "sees one future key"
