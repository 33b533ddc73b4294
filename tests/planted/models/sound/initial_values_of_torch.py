"""A model that leaves all initial values to its layers; its splice starts orthogonal."""

BASE = "mla_splice"
REPLACE = {
    """\
        for name, p in self.named_parameters():
            if p.dim() == 2 and "kvsplice" not in name:
                nn.init.normal_(p, std=0.02)
""": "",
}
