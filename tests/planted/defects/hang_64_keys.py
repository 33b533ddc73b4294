"""Online softmax over tiles of 64 keys; short rows take a single short tile."""

BASE = "online_tiles"
REPLACE = {
    """\
    for start in range(0, keys, TILE):
        tile = slice(start, min(start + TILE, keys))
""": """\
    start = 0
    while start < keys:
        tile = slice(start, start + (keys % TILE if keys <= TILE else min(TILE, keys - start)))
        start = tile.stop
        if tile.start == tile.stop:
            continue
""",
}
PLANTED = "64 keys never end"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = ("hang", "timeout", "time limit", "timed out", "did not return", "took longer", "seconds")
OWN_PROCESS = True  # never returns
