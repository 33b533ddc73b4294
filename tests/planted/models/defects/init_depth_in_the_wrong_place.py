"""A nanoGPT in which c_attn starts smaller by the depth, where c_proj should."""

BASE = "nanogpt"
REPLACE = {
    'if name.endswith("c_proj.weight"):': (
        'if name.endswith(("c_attn.weight", "mlp.c_proj.weight")):'
    )
}
PLANTED = "the depth scales a projection that reads the residual stream"
CAUGHT_BY = ("init",)
CAUSE = ("c_attn.weight",)
