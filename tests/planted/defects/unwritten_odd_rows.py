"""Online softmax over tiles of 64 keys; the accumulator is cleared two rows at a time."""

BASE = "online_tiles"
REPLACE = {
    "    total, acc = torch.zeros_like(highest), torch.zeros(q.shape, device=q.device)\n": """\
    total, acc = torch.zeros_like(highest), torch.empty(q.shape, device=q.device)
    acc[:, :, : queries // 2 * 2] = 0.0
""",
}
PLANTED = "the last row of the accumulator is not cleared where M is odd"
CAUGHT_BY = ("unwritten",)
CAUSE = ("unwritten", "never written", "not written", "uninitialised", "torch.empty")
