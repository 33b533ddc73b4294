"""Online softmax over tiles of 16 keys in any order, since softmax does not care."""

BASE = "keys_backwards"
REPLACE = {
    """\
    for stop in range(keys, 0, -32):
        index = torch.arange(max(stop - 32, 0), stop, device=q.device)
""": "    for index in torch.randperm(keys, device=q.device).split(16):\n",
}
PLANTED = "keys are added up in a random order on each call"
CAUGHT_BY = ("determinism", "causality")
CAUSE = ("repeat", "bit", "determin", "random", "order", "differ")
