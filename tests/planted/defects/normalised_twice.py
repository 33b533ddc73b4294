"""Online softmax whose tail divides once more by the sum of weights."""

BASE = "online_tiles"
REPLACE = {
    "    return (acc / total.masked_fill(total == 0.0, 1.0)).to(q.dtype)\n": """\
    total = total.masked_fill(total == 0.0, 1.0)
    acc = acc / total
    return (acc / total).to(q.dtype)
""",
}
PLANTED = "the output is divided by the softmax sum twice"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = "weights are normalised twice"
