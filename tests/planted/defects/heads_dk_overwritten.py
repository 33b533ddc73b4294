"""Grouped-query attention whose backward goes through the query heads one by one."""

BASE = "hand_written_backward"
REPLACE = {
    "        dk, dv = (x.unflatten(1, (-1, group)).sum(dim=2) for x in (dk, dv))\n": """\
        of_heads, dk = dk, torch.zeros(k.shape, device=k.device)
        for head in range(q.shape[1]):
            dk[:, head // group] = of_heads[:, head]
        dv = dv.unflatten(1, (-1, group)).sum(dim=2)
""",
}
PLANTED = "dk of a kv head is overwritten by each query head instead of added to"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = ("group", "kv head", "query heads", "heads")
