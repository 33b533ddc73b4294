"""Causal attention whose mask is aligned top-left where there are more than 256 keys."""

BASE = "eager_plain"
REPLACE = {
    "        seen = seen.tril(keys - queries)": (
        "        seen = seen.tril(keys - queries if keys <= 256 else 0)"
    )
}
PLANTED = "top-left above 256 keys"
CAUGHT_BY = ("shapes",)
CAUSE = ("top-left", "bounded by sq")
