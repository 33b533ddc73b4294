"""Causal attention that computes only the queries that see a key."""

BASE = "eager_plain"
REPLACE = {
    "    return weights.to(v.dtype) @ v\n": """\
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    first = max(queries - keys, 0) if causal else 0
    out[:, :, first:] = (weights.to(v.dtype) @ v)[:, :, first:]
    return out
""",
}
PLANTED = "rows that see no key are left as torch.empty had them"
CAUGHT_BY = ("unwritten", "shapes", "determinism")
CAUSE = (
    "unwritten",
    "never written",
    "not written",
    "uninitialised",
    "no key",
    "sees nothing",
    "see nothing",
    "blind",
)
