"""Attention whose backward adds up dv over tiles of 16 keys."""

BASE = "hand_written_backward"
REPLACE = {
    "        dv = weights.transpose(-1, -2) @ grad\n": """\
        dv = weights[..., :-1].transpose(-1, -2) @ grad
        dv = torch.nn.functional.pad(dv, (0, 0, 0, 1))
""",
}
PLANTED = "the gradient of v is missing for the last key"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = ("last key", "dv")
