"""A cache with the newest token first."""

BASE = "attention_written_out"
REPLACE = {
    """\
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
""": """\
            k = torch.cat([past[0].flip(2), k], dim=2)
            v = torch.cat([past[1].flip(2), v], dim=2)
""",
    "return y, (k, v)": "return y, (k.flip(2), v.flip(2))",
}
