"""Cache layouts, one file each: the tensors kept of a token. See kv/contract.py."""

CONTRACT = ("streams", "encode", "decode")
FRAMEWORK = "torch"
EXACT = True
SCALES = None
BLOCK = 1
FROZEN = False
KEY_BIAS = False
VERSION = 1
