"""Causal attention whose queries from 384 on see the key after theirs too."""

BASE = "eager_plain"
REPLACE = {
    "        seen = seen.tril(keys - queries)": (
        "        late = torch.arange(queries, device=q.device)[:, None] >= 384\n"
        "        seen = seen.tril(keys - queries) | (late & seen.tril(keys - queries + 1))"
    )
}
PLANTED = "queries from 384 on see one future key"
CAUGHT_BY = ("causality",)
CAUSE = "a query sees the future"
