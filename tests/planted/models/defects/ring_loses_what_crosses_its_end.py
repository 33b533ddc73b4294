"""A nanoGPT with a window of 32 tokens and a ring of as many entries for its cache.

Re-enacts a chunk written with one slice: what reaches beyond the end of the ring is cut off where
it should go on at its beginning. Single tokens, and chunks that end where the ring does, are right.
"""

BASE = "ring_of_window"
REPLACE = {
    "    return ring.index_copy(2, places, newest)\n": """\
    if len(places) < WINDOW:
        places = places[places >= places[0]]
    return ring.index_copy(2, places, newest[:, :, : len(places)])
""",
}
PLANTED = "entries are lost where a chunk crosses the end of the ring"
CAUGHT_BY = ("cached",)
CAUSE = ("in chunks of",)
