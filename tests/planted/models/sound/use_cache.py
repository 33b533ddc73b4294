"""A forward that gives its cache back when it is told use_cache=True."""

BASE = "attention_written_out"
REPLACE = {
    "cache=None": "cache=None, use_cache=False",
    "if cache is None:": "if not use_cache:",
}
