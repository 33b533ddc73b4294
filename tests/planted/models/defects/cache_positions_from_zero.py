"""A GPT-2 as plain functions over a dictionary of parameters, with a dictionary as its cache.

Re-enacts a position table that is read from its start in each call: decoded one by one,
all tokens stand at position 0.
"""

BASE = "plain_functions"
REPLACE = {
    """\
        before = cache[0]["k"].shape[2] if cache else 0
        x = F.embedding(idx, p["wte"]) + p["wpe"][before : before + idx.shape[1]]
""": """\
        x = F.embedding(idx, p["wte"]) + p["wpe"][: idx.shape[1]]
""",
}
PLANTED = "positions start at 0 in each cached call"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token")
