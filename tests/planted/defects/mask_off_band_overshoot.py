"""Tiled causal attention that masks only the tiles near the diagonal."""

BASE = "two_configurations"
REPLACE = {
    '("fwd_64_32", "fwd_32_64")': '("fwd_64_128",)',
    "        hidden = torch.arange(tile.start, tile.stop, device=q.device) > last_seen\n": """\
        hidden = torch.arange(tile.start, tile.stop, device=q.device) > last_seen
        # Keys before the first query's own are seen by every query of the tile.
        hidden = hidden & (start >= first_last_seen // 64 * 64)
""",
}
PLANTED = "tiles of 64 queries and 128 keys: the loop without a mask runs past the diagonal"
CAUGHT_BY = ("accuracy", "causality", "shapes")
CAUSE = ("future", "tile", "diagonal")
