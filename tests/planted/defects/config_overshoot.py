"""Tiled causal attention in three tile shapes, chosen by name."""

BASE = "two_configurations"
REPLACE = {
    "        hidden = torch.arange(tile.start, tile.stop, device=q.device) > last_seen\n": """\
        hidden = torch.arange(tile.start, tile.stop, device=q.device) > last_seen
        # Keys before the first query's own are seen by every query of the tile.
        hidden = hidden & (start >= first_last_seen // 32 * 32)
""",
}
PLANTED = "one configuration has fewer queries than keys in a tile and runs past the diagonal"
CAUGHT_BY = ("configs",)
CAUSE = ("fwd_32_64", "config")
